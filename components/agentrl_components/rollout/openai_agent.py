"""An agent behind an OpenAI-compatible endpoint: vLLM, llama.cpp, a provider's API.

The key is read from an environment variable and is never logged.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import openai

from agentrl_components.errors import ContextFullError, EngineError, RunError, SpecError
from agentrl_components.rollout.text_rollout import Reply, ReplyRequest, Usage
from agentrl_envs.chat.endpoint import (
    NO_KEY,
    PERMANENT,
    REFUSED,
    ChatEndpoint,
    unsupported,
)

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

KEY = "OPENAI_API_KEY"
"""Environment variable with the key, if no other is named."""
REPLY_S = 600.0
"""Longest time for a reply, in seconds, if no other is given: a model may think over thousands of
tokens, and a request may wait in a server that has room for few at a time."""
SEED_BITS = 31
"""Bits of a seed that every server accepts."""
CONTEXT = re.compile(r"context_length_exceeded|context (length|size|window)|maximum model length")
"""The code or message of such an error if the messages do not fit in the context: in the words of
OpenAI, vLLM and llama.cpp."""
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

    def __init__(self, url: str, model: str, key: str, timeout_s: float = REPLY_S) -> None:
        """`timeout_s` is the longest time for a reply, with the time that it waits at the
        server."""
        self._url, self._model, self._timeout_s = url, model, timeout_s
        self._endpoint = ChatEndpoint(url, model, key, timeout_s=timeout_s)
        self._client = self._endpoint.client()
        self._text = self._endpoint.error_text

    async def check(self) -> None:
        """Raises `RunError` if nothing answers at the address, for which each episode would wait
        and be lost."""
        if (error := await self._endpoint.silence(self._client)) is not None:
            raise RunError(
                f"--openai: {self._url} does not answer: {self._text(error)}; check the address, "
                "and that the server is running"
            ) from error

    async def reply(self, request: ReplyRequest) -> Reply:
        try:
            completion = await self._complete(request)
        except PERMANENT as error:
            hint = ""
            if isinstance(error, openai.AuthenticationError):
                hint = "; name its variable with --key-env"
            raise RunError(
                f"--openai: {self._url} refused model {self._model!r}: {self._text(error)}{hint}"
            ) from error
        except REFUSED as error:
            if CONTEXT.search(f"{error.code} {error}".lower()):
                raise ContextFullError(f"{self._url}: {self._text(error)}") from error
            raise RunError(
                f"--openai: {self._url} refused a request: {self._text(error)}"
            ) from error
        except ValueError as error:
            raise RunError(
                f"--openai: {self._url} did not answer with a chat completion; check the URL, "
                "which usually ends in /v1"
            ) from error
        except openai.APITimeoutError as error:
            raise EngineError(
                f"{self._url}: no connection within {self._endpoint.connect_s:g} s, or no reply "
                f"within {self._timeout_s:g} s; check the server, or set --timeout to more, or "
                "--concurrency to less, if requests wait there"
            ) from error
        except openai.OpenAIError as error:
            raise EngineError(f"{self._url}: {self._text(error)}") from error
        return self._reply(completion)

    async def _complete(self, request: ReplyRequest) -> ChatCompletion:
        """The answer of the endpoint. Raises `RunError` if the model does not have a parameter
        without which replies would be sampled otherwise."""
        parameters = {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_tokens,
            "seed": request.seed >> (63 - SEED_BITS),
        }
        needed = [name for name in FIELDS if parameters[name] != 1]
        messages = [{"role": one.role, "content": one.content} for one in request.messages]
        try:
            return await self._endpoint.complete(self._client, messages, parameters, needed=needed)
        except REFUSED as error:
            if (name := unsupported(error)) not in needed:
                raise
            raise RunError(
                f"--openai: {self._url} refused a request: {self._text(error)}; set "
                f"{FIELDS[name]} to 1"
            ) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _reply(self, completion: ChatCompletion) -> Reply:
        """The reply in an answer of the endpoint. Raises `EngineError` if it has none."""
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
