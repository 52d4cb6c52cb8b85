"""Requests to a search service: key, retries, rate, and errors that say what to do.

Redirects are not followed, so that the key and the queries reach the configured host only. Errors
name the address without its query, which may hold the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import tenacity

from agentrl_envs.environments.search.options import RetrieverOptions
from agentrl_envs.environments.search.retrieval.rate_limit import RateLimit
from agentrl_envs.environments.search.retrieval.retriever import QueryError
from agentrl_envs.errors import SessionError
from agentrl_envs.http.answers import NOT_COMPRESSED, AnswerError, bound
from agentrl_envs.http.received import parse_json

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_REFUSED = frozenset({400, 413, 414, 422})
"""Statuses with which services refuse a query that is empty, too long, or has too many words."""
MAX_REFUSED = 20
"""Queries refused one after another, after which the service counts as down: a key or a plan may
have ended."""


class _TemporaryError(SessionError):
    """Raised where the same request may succeed later."""


class Service:
    """One search service. Thread-safe."""

    def __init__(self, options: RetrieverOptions, key: str) -> None:
        self._options = options
        parts = urlsplit(options.url)
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path.partition('{')[0]}"
        self._headers = _headers(options, key)
        self._limit = RateLimit(options.per_second)
        self._http = httpx.Client(
            headers=NOT_COMPRESSED,
            event_hooks={"response": [bound]},
            timeout=options.timeout_s,
            follow_redirects=False,
        )
        self._answered = False
        """Whether it has answered a query, so that address and form of the requests are right."""
        self._refused = 0
        """Queries that it has refused one after another."""

    def get(self, url: str) -> Any:
        """The JSON answer to a GET. Raises `SessionError`, and `QueryError` if the service has
        answered another query and refuses this one."""
        return self._request("GET", url, None)

    def post(self, url: str, body: Any) -> Any:
        """The JSON answer to a POST of JSON. Raises as `get` does."""
        return self._request("POST", url, body)

    @contextmanager
    def expect(self, form: str) -> Iterator[None]:
        """Raises `SessionError` where an answer lacks what is read from it in this context."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError):
            raise SessionError(
                f"search retriever {self._shown}: the answer has no {form}; check "
                "search.options.retriever (kind, results, title, text)"
            ) from None

    def _request(self, method: str, url: str, body: Any) -> Any:
        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_TemporaryError),
            stop=tenacity.stop_after_attempt(self._options.attempts),
            wait=tenacity.wait_exponential_jitter(multiplier=0.1, max=5, jitter=0.1),
            reraise=True,
        )
        return again(self._request_once, method, url, body)

    def _request_once(self, method: str, url: str, body: Any) -> Any:
        self._limit.wait()
        try:
            answer = self._http.request(method, url, json=body, headers=self._headers)
        except httpx.HTTPError as error:
            raise _TemporaryError(
                f"search retriever {self._shown}: no answer ({type(error).__name__}); check that "
                "it runs and that search.options.retriever.url is its address"
            ) from None
        except AnswerError as error:
            raise SessionError(f"search retriever {self._shown}: {error}") from None
        except httpx.InvalidURL as error:  # also of one that is too long
            if self._answered:
                raise QueryError(str(error)) from None
            raise SessionError(
                f"search retriever {self._shown}: {error}; check search.options.retriever.url"
            ) from None
        self._check_status(answer)
        try:
            found = parse_json(answer.content)
        except ValueError:
            raise SessionError(
                f"search retriever {self._shown}: the answer is no JSON; check "
                "search.options.retriever.url"
            ) from None
        self._answered, self._refused = True, 0
        return found

    def _check_status(self, answer: httpx.Response) -> None:
        status, where = answer.status_code, f"search retriever {self._shown}: status"
        if status in _AGAIN:
            raise _TemporaryError(
                f"{where} {status} after {self._options.attempts} attempts; look at its log"
                + (", or lower per_second" if status == httpx.codes.TOO_MANY_REQUESTS else "")
            )
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            variable = self._options.key_env or "key_env, which names no variable"
            raise SessionError(f"{where} {status}; check the key in {variable}")
        if answer.is_redirect:
            raise SessionError(
                f"{where} {status}: it redirects, and keys are not sent on; set "
                "search.options.retriever.url to where it leads"
            )
        if status in _REFUSED and self._answered:
            self._refused += 1
            if self._refused <= MAX_REFUSED:
                raise QueryError(f"status {status}")
            raise SessionError(
                f"{where} {status} for {self._refused} queries in a row; look at its log, and "
                "check the key and its plan"
            )
        if not answer.is_success:
            raise SessionError(f"{where} {status}; check search.options.retriever.url")


def _headers(options: RetrieverOptions, key: str) -> dict[str, str]:
    if not key or not options.key_header:
        return {}
    bearer = options.key_header.lower() == "authorization" and " " not in key
    return {options.key_header: f"Bearer {key}" if bearer else key}
