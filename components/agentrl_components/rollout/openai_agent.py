"""An agent behind an OpenAI-compatible endpoint: vLLM, llama.cpp, a provider's API.

The `openai` package does retries, backoff and timeouts. The key is read from an environment
variable and is never logged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import openai

from agentrl_components.errors import ContextFullError, EngineError, RunError, SpecError
from agentrl_components.rollout.text_rollout import Reply, ReplyRequest, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

KEY = "OPENAI_API_KEY"
"""Environment variable with the key, if no other is named."""
NO_KEY = "none"
"""Sent to servers that need no key."""
SEED_BITS = 31
"""Bits of a seed that every server accepts."""
PERMANENT = (
    openai.AuthenticationError,
    openai.PermissionDeniedError,
    openai.NotFoundError,
)
"""Errors that neither a retry nor another episode can fix."""
REFUSED = (openai.BadRequestError, openai.UnprocessableEntityError)
"""Errors of a request that has the same answer each time."""
CONTEXT = re.compile(r"context_length_exceeded|context (length|size|window)|maximum model length")
"""The code or message of such an error if the messages do not fit in the context: in the words of
OpenAI, vLLM and llama.cpp."""

UNSUPPORTED = re.compile(r"unsupported (?:parameter|value): '(\w+)'")
"""The message of such an error for a parameter that the model does not have, as OpenAI's models
that think refuse `max_tokens`."""
UNSUPPORTED_CODES = ("unsupported_parameter", "unsupported_value")
"""Its codes."""
FIELDS = {"temperature": "spec.evaluation.temperature", "top_p": "spec.rollout.topP"}
"""Fields of the manifest by the parameters that they set. Where a model does not have the
parameter, it samples as with 1."""


def api_key(variable: str | None) -> str:
    """The key in `variable`. Raises `SpecError` if a variable is named but not set."""
    key = os.environ.get(variable or KEY)
    if key is None and variable is not None:
        raise SpecError([f"--key-env: {variable} is not set; set it to the endpoint's key"])
    return key or NO_KEY


class OpenAIAgent:
    """Replies with chat completions. Used and closed on one event loop."""

    def __init__(
        self, url: str, model: str, key: str, *, timeout_s: float = 60.0, retries: int = 4
    ) -> None:
        self._url, self._model = url, model
        self._unsupported: set[str] = set()
        """Parameters that the endpoint refused."""
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=key, timeout=timeout_s, max_retries=retries
        )

    async def reply(self, request: ReplyRequest) -> Reply:
        try:
            completion = await self._complete(request)
        except PERMANENT as error:
            raise RunError(
                f"--openai: {self._url} refused model {self._model!r}: {error_text(error)}"
            ) from error
        except REFUSED as error:
            if CONTEXT.search(f"{error.code} {error}".lower()):
                raise ContextFullError(f"{self._url}: {error_text(error)}") from error
            raise RunError(
                f"--openai: {self._url} refused a request: {error_text(error)}"
            ) from error
        except ValueError as error:
            raise self._not_a_completion() from error
        except openai.OpenAIError as error:
            raise EngineError(f"{self._url}: {error_text(error)}") from error
        return self._reply(completion)

    async def _complete(self, request: ReplyRequest) -> ChatCompletion:
        """The answer of the endpoint. A request with a parameter that the model does not have is
        repeated without it, and later requests begin without it. Raises `RunError` for a parameter
        without which replies would be sampled otherwise."""
        while True:
            sent = self._parameters(request)
            try:
                completion: ChatCompletion = await self._client.chat.completions.create(
                    model=self._model,
                    messages=cast("Iterable[ChatCompletionMessageParam]", _messages(request)),
                    **sent,
                )
            except REFUSED as error:
                name = _unsupported(error)
                if name not in sent or name == "max_completion_tokens":
                    raise
                if name in FIELDS and sent[name] != 1:
                    raise RunError(
                        f"--openai: {self._url} refused a request: {error_text(error)}; set "
                        f"{FIELDS[name]} to 1"
                    ) from error
                self._unsupported.add(name)
            else:
                return completion

    def _parameters(self, request: ReplyRequest) -> dict[str, Any]:
        """The parameters of sampling, but for those that the endpoint refused."""
        parameters = {
            "temperature": request.temperature,
            "top_p": request.top_p,
            # Many servers do not know the newer name, max_completion_tokens.
            "max_tokens": request.max_tokens,
            "seed": request.seed >> (63 - SEED_BITS),
        }
        if "max_tokens" in self._unsupported:
            parameters["max_completion_tokens"] = request.max_tokens
        return {k: v for k, v in parameters.items() if k not in self._unsupported}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _reply(self, completion: ChatCompletion) -> Reply:
        """The reply in an answer of the endpoint. Raises `RunError` if that is no completion, and
        `EngineError` if it has no reply."""
        # A page of HTML with status 200 is returned as text, and any JSON object is accepted.
        if not isinstance(getattr(completion, "choices", None), list):
            raise self._not_a_completion()
        if not completion.choices:
            raise EngineError(f"{self._url}: a completion without a choice")
        used, choice = completion.usage, completion.choices[0]
        # Without a content a model has used all tokens for its thoughts.
        text = choice.message.content or ""
        return Reply(
            text=text,
            usage=Usage(
                replies=1,
                cut=int(choice.finish_reason == "length"),
                empty=int(not text.strip()),
                prompt_tokens=getattr(used, "prompt_tokens", None) or 0,
                completion_tokens=getattr(used, "completion_tokens", None) or 0,
            ),
        )

    def _not_a_completion(self) -> RunError:
        return RunError(
            f"--openai: {self._url} did not answer with a chat completion; check the URL, which "
            "usually ends in /v1"
        )


def _messages(request: ReplyRequest) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": message.content} for message in request.messages]


def _unsupported(error: openai.APIStatusError) -> str | None:
    """The parameter of which a refused request's error says that the model does not have it."""
    if found := UNSUPPORTED.search(str(error).lower()):
        return found[1]
    return error.param if error.code in UNSUPPORTED_CODES else None


def error_text(error: openai.OpenAIError) -> str:
    """The error in one line. Servers repeat a refused key in their message, so that message is not
    shown."""
    if isinstance(error, openai.AuthenticationError):
        return "the key is missing or wrong; name its variable with --key-env"
    return " ".join(str(error).split())[:300] or type(error).__name__
