"""A model behind an OpenAI-compatible endpoint: vLLM, llama.cpp, a provider's API.

The `openai` package does retries, backoff and timeouts.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import openai

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

NO_KEY = "none"
"""Sent to servers that need no key."""
PERMANENT = (
    openai.AuthenticationError,
    openai.PermissionDeniedError,
    openai.NotFoundError,
)
"""Errors that neither a retry nor another request can fix."""
REFUSED = (openai.BadRequestError, openai.UnprocessableEntityError)
"""Errors of a request that has the same answer each time."""

CONNECT_S = 60.0
"""Longest time until a connection is there, in seconds. A host that is gone may not even refuse
one, and a reply may have many minutes."""
PROBE_S = 30.0
"""Seconds within which an endpoint that is there answers a request without a model."""

_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""Names of the limit of a reply. Many servers do not know the newer one; models of OpenAI that
think refuse the older one."""
_UNSUPPORTED = re.compile(r"unsupported (?:parameter|value): '(\w+)'")
"""The message of a refusal because of a parameter that the model does not have."""
_UNSUPPORTED_CODES = ("unsupported_parameter", "unsupported_value")
"""Its codes."""


class ChatEndpoint:
    """A model at an endpoint, with what is known of the parameters that it does not have."""

    def __init__(
        self, url: str, model: str, key: str, *, timeout_s: float = 60.0, retries: int = 4
    ) -> None:
        """`timeout_s` is for one whole answer, with the time for which the server lets the request
        wait; to connect, it has `CONNECT_S`. A request that got no answer is sent again, up to
        `retries` times."""
        self.url, self.model = url, model
        self.connect_s = min(timeout_s, CONNECT_S)
        self._key, self._timeout_s, self._retries = key, timeout_s, retries
        self._unsupported: set[str] = set()

    def client(self) -> openai.AsyncOpenAI:
        """New connections, to be used and closed on one event loop."""
        return openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self._key,
            timeout=openai.Timeout(self._timeout_s, connect=self.connect_s),
            max_retries=self._retries,
        )

    async def silence(self, client: openai.AsyncOpenAI) -> openai.APIConnectionError | None:
        """The error if nothing answers at the address. Any answer will do: not every server lists
        its models."""
        try:
            await client.with_options(max_retries=1, timeout=PROBE_S).models.list()
        except openai.APIConnectionError as error:
            return error
        except (openai.OpenAIError, ValueError):
            return None
        return None

    async def complete(
        self,
        client: openai.AsyncOpenAI,
        messages: Iterable[Mapping[str, str]],
        parameters: Mapping[str, Any],
        *,
        needed: Container[str] = (),
    ) -> ChatCompletion:
        """The endpoint's answer. A request with a parameter that the model does not have is
        repeated without it, and later requests begin without it; `max_tokens` gets its newer name.

        Raises:
            openai.OpenAIError: the endpoint does not answer, or refuses the request; also because
                of a parameter in `needed`.
            ValueError: the answer is no completion.
        """
        while True:
            sent = self._supported(parameters)
            try:
                completion: ChatCompletion = await client.chat.completions.create(
                    model=self.model,
                    messages=cast("Iterable[ChatCompletionMessageParam]", messages),
                    **sent,
                )
            except REFUSED as error:
                name = unsupported(error)
                if name not in sent or name == _NEW_LIMIT or name in needed:
                    raise
                self._unsupported.add(name)
            else:
                # A page of HTML with status 200 is returned as text, and any JSON object is
                # accepted.
                if not isinstance(getattr(completion, "choices", None), list):
                    raise ValueError("the answer is no chat completion")
                return completion

    def error_text(self, error: Exception) -> str:
        """The error in one line, without the key, which servers repeat in their messages."""
        if isinstance(error, openai.AuthenticationError):  # it may repeat a part of the key
            return "the key is missing or wrong"
        text = str(error)
        if self._key != NO_KEY:
            text = text.replace(self._key, "***")
        return " ".join(text.split())[:300] or type(error).__name__

    def _supported(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, but for those that the endpoint refused."""
        sent = {k: v for k, v in parameters.items() if k not in self._unsupported}
        if _LIMIT in parameters and _LIMIT in self._unsupported:
            sent[_NEW_LIMIT] = parameters[_LIMIT]
        return sent


def unsupported(error: openai.APIStatusError) -> str | None:
    """The parameter of which a refused request's error says that the model does not have it."""
    if found := _UNSUPPORTED.search(str(error).lower()):
        return found[1]
    return error.param if error.code in _UNSUPPORTED_CODES else None
