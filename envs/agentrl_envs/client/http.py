"""Transport: one environment server, called over HTTP, with every way to fail given its class.

    cannot be reached, a proxy's 502/503/504   tried again with jitter, then UnreachableError
    no answer in time                          UnreachableError
    429                                        CapacityError, with the server's Retry-After
    404, 409, 5xx of the server                SessionError: the session is lost
    422 for a task                             TaskError
    401, no such route, not such a server      WorldError: no retry will help
    an answer that is not the protocol's       ContractError

Trying again is safe for every call: see `wire`. A name that has no address counts as a server that
cannot be reached. Names are looked up anew for every new connection; nothing here keeps addresses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError
from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    SessionError,
    TaskError,
    UnreachableError,
    WorldError,
)
from agentrl_envs.protocol import ErrorDetail, ErrorResponse

M = TypeVar("M", bound=BaseModel)

POOLS = 32
"""Connection pools of one server."""

JSON_BODY = {"content-type": "application/json"}

GATEWAY = (502, 503, 504)
"""What a proxy answers for a server that is starting, stopping or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a caller waits, in seconds."""

    call_s: float = 60.0
    """For one call, tries and waits together."""
    retry_s: float = 15.0
    """For a server that cannot be reached, before the session counts as lost."""
    look_s: float = 1.0
    """Between two looks for the servers of a world, at the least."""
    capacity_s: float = 120.0
    """For a place in a server that is full."""


class _GatewayError(Exception):
    """A proxy answered in the server's place."""


class Server:
    """One server. Connections are pooled and kept alive."""

    def __init__(self, url: str, *, token: str | None, patience: Patience) -> None:
        self.url = url.rstrip("/")
        self._patience = patience
        # A pool looks through all its connections for every call, so many small ones are quicker
        # than a large one: with 64 sessions, more than twice as quick (benchmarks/envs.py).
        # Loading certificates takes long: once, and not where there is nothing to verify.
        verify = httpx.create_ssl_context() if self.url.startswith("https") else False
        self._pools = [self._pool(token, verify) for _ in range(POOLS)]
        self._busy = [0] * POOLS

    async def get(self, path: str, answer: type[M], *, patient: bool = True, **params: int) -> M:
        """A GET whose answer is of the given model; tried once where it is not `patient`."""
        response = await self._call("GET", path, patient=patient, params=params)
        return self._read(response, f"GET {path}", answer)

    async def post(self, path: str, body: BaseModel, answer: type[M], *, patient: bool = True) -> M:
        """A POST of one model whose answer is another; tried once where it is not `patient`."""
        content = body.model_dump_json()
        response = await self._call("POST", path, patient=patient, content=content)
        return self._read(response, f"POST {path}", answer)

    @asynccontextmanager
    async def lines(self, path: str, body: BaseModel) -> AsyncIterator[AsyncIterator[bytes]]:
        """A POST of one model whose answer comes line by line. It is not tried again: raises
        `SessionError` for every way in which lines may stay away."""
        try:
            async with (
                self._pooled() as pool,
                pool.stream(
                    "POST", path, content=body.model_dump_json(), headers=JSON_BODY
                ) as response,
            ):
                if response.status_code != 200:
                    raise SessionError(f"{self.url}: POST {path} answered {response.status_code}")
                yield _split(response.aiter_bytes())
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise SessionError(f"{self.url}: POST {path} broke off ({reason})") from None

    async def delete(self, path: str, *, patient: bool = True) -> None:
        """A DELETE; nothing comes back. Tried once where it is not `patient`."""
        await self._call("DELETE", path, patient=patient)

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        patient: bool,
        content: str | None = None,
        params: dict[str, int] | None = None,
    ) -> httpx.Response:
        headers = {} if content is None else JSON_BODY
        async with self._named_failures(f"{method} {path}"):
            async for attempt in self._attempts(patient):
                with attempt:
                    response = await self._sent(
                        method, path, content=content, params=params, headers=headers
                    )
                    detail = _detail(response)
                    if detail is None and response.status_code in GATEWAY:
                        raise _GatewayError(f"status {response.status_code}")
        if response.status_code >= 400:
            raise self._error(response, detail, f"{method} {path}")
        return response

    async def _sent(self, method: str, path: str, **request: Any) -> httpx.Response:
        async with self._pooled() as pool:
            return await pool.request(method, path, **request)

    @asynccontextmanager
    async def _pooled(self) -> AsyncIterator[httpx.AsyncClient]:
        """The pool with the fewest calls under way."""
        index = self._busy.index(min(self._busy))
        self._busy[index] += 1
        try:
            yield self._pools[index]
        finally:
            self._busy[index] -= 1

    def _pool(self, token: str | None, verify: ssl.SSLContext | bool) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            verify=verify,
            timeout=httpx.Timeout(self._patience.call_s, connect=min(5.0, self._patience.call_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def _attempts(self, patient: bool) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type((httpx.TransportError, _GatewayError)),
            wait=wait_random_exponential(multiplier=0.1, max=2.0),
            stop=stop_after_delay(self._patience.retry_s) if patient else stop_after_attempt(1),
            reraise=True,
        )

    @asynccontextmanager
    async def _named_failures(self, call: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience.call_s):
                yield
        except TimeoutError:
            raise UnreachableError(
                f"{self.url}: {call} got no answer in {self._patience.call_s:g} s"
            ) from None
        except (httpx.TransportError, _GatewayError) as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"{self.url}: {call} cannot reach the server ({reason}); is it up at this URL?"
            ) from None
        except httpx.InvalidURL as error:
            raise WorldError(f"url: {self.url!r} is not a URL ({error})") from None

    def _error(self, response: httpx.Response, detail: ErrorDetail | None, call: str) -> WorldError:
        if detail is None:
            return WorldError(
                f"{self.url}: {call} answered {response.status_code}, not as an environment server "
                "does; is the URL right?"
            )
        return self.error(detail, call, _retry_after_s(response))

    def error(self, detail: ErrorDetail, call: str, retry_after_s: float = 1.0) -> WorldError:
        """What the server refused, as the class that its type stands for."""
        message = f"{self.url}: {call}: {detail.message}"
        match detail.type:
            case "capacity":
                return CapacityError(message, retry_after_s=retry_after_s)
            case "session" | "conflict" | "internal":
                return SessionError(message)
            case "task":
                return TaskError(message)
            case "contract" | "invalid":
                return ContractError(message)
            case "unauthorized":
                return WorldError(f"token: {message}; is the token right?")
            case "not_found":
                return WorldError(f"url: {message}; is the URL right?")

    def _read(self, response: httpx.Response, call: str, answer: type[M]) -> M:
        return self.read(response.content, call, answer)

    def read(self, content: bytes, call: str, answer: type[M]) -> M:
        """An answer of the given model. Raises `ContractError` for one that is not."""
        try:
            return answer.model_validate_json(content, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the answer"
            shown = repr(first["input"])
            shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
            raise ContractError(
                f"{self.url}: {call}: {field} is {shown}: {first['msg'].lower()}"
            ) from None


async def _split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines, each when it is whole. By hand: httpx ends a line at any of Unicode's line ends, and
    JSON may hold those."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def _detail(response: httpx.Response) -> ErrorDetail | None:
    """The typed error of an answer; None: there is none, or it is not from such a server."""
    if response.status_code < 400:
        return None
    try:
        return ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        return None


def _retry_after_s(response: httpx.Response) -> float:
    given = response.headers.get("retry-after", "1")
    return float(given) if given.isascii() and given.isdecimal() else 1.0
