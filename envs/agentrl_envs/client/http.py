"""HTTP client of one environment server. Maps every failure to an error class.

    connection error, a proxy's 502/503/504    retried with jitter, then UnreachableError
    no answer in time                          UnreachableError
    429                                        CapacityError, with the server's Retry-After
    503 of a server that drains                UnreachableError, not retried
    404, 409, 5xx of the server                SessionError: the session is lost
    422 for a task                             TaskError
    401, unknown route, not such a server      WorldError: a retry cannot help
    a response that violates the protocol      ContractError

Retries are safe because every call is idempotent: see `protocol`. A host name that does not resolve
counts as a connection error. Names are resolved for every new connection; addresses are not cached.
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
from agentrl_envs.http.answers import MAX_BYTES, NOT_COMPRESSED, AnswerError, bound_async
from agentrl_envs.http.proxies import mounts
from agentrl_envs.http.received import short
from agentrl_envs.protocol import TIMEOUT_HEADER, ErrorDetail, ErrorResponse

M = TypeVar("M", bound=BaseModel)

JSON_BODY = {"content-type": "application/json"}

GATEWAY_STATUS = (502, 503, 504)
"""Status codes of a proxy whose server is starting, stopping or gone."""

MAX_STREAM_BYTES = 64 << 20
"""Bytes of a stream of lines: more than the steps of one request have if every observation has
200,000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Timeouts in seconds, and how requests are sent."""

    call_s: float = 60.0
    """Timeout of one call, retries included."""
    retry_s: float = 15.0
    """How long an unreachable server is retried before the session counts as lost."""
    discovery_s: float = 1.0
    """Minimum time between two discoveries of the servers of a world."""
    capacity_s: float = 120.0
    """How long to wait for a session on a full server."""
    pools: int = 32
    """Connection pools per server. httpx scans all connections of a pool for every request, so that
    many small pools are faster than a large one; `benchmarks/client.py` measures it."""
    tls_name: str | None = None
    """Host name that the certificates of servers are checked for. None: the host of their URLs."""
    batch_steps: bool = True
    """Send concurrent steps to one server in one request; `benchmarks/client.py` measures it."""


class _GatewayError(Exception):
    """A proxy answered in place of the server."""


class ServerClient:
    """Client of one server. Connections are pooled and kept alive."""

    def __init__(self, url: str, *, token: str | None, options: ClientOptions) -> None:
        self.url = url.rstrip("/")
        self._options = options
        # Loading certificates is slow: do it once for all pools, and only where TLS is used.
        verify = httpx.create_ssl_context() if self.url.startswith("https") else False
        self._pools = [self._new_pool(token, verify) for _ in range(options.pools)]
        self._busy = [0] * options.pools
        name = options.tls_name
        self._extensions: dict[str, Any] = {} if name is None else {"sni_hostname": name}

    async def get(self, path: str, model: type[M], *, retry: bool = True, **params: int) -> M:
        """GET a response of the given model."""
        response = await self._call("GET", path, retry=retry, params=params)
        return self._read(response, f"GET {path}", model)

    async def post(self, path: str, body: BaseModel, model: type[M], *, retry: bool = True) -> M:
        """POST a model and return a response of another."""
        content = body.model_dump_json()
        response = await self._call("POST", path, retry=retry, content=content)
        return self._read(response, f"POST {path}", model)

    @asynccontextmanager
    async def lines(self, path: str, body: BaseModel) -> AsyncIterator[AsyncIterator[bytes]]:
        """POST a model and stream the lines of the response. Not retried: raises `SessionError`
        if the stream fails for any reason."""
        try:
            async with (
                self._least_busy_pool() as pool,
                pool.stream(
                    "POST",
                    path,
                    content=body.model_dump_json(),
                    headers=JSON_BODY,
                    extensions={MAX_BYTES: MAX_STREAM_BYTES} | self._extensions,
                ) as response,
            ):
                if response.status_code != 200:
                    raise SessionError(f"{self.url}: POST {path} answered {response.status_code}")
                yield _lines(response.aiter_bytes())
        except (httpx.TransportError, AnswerError) as error:
            reason = str(error) or type(error).__name__
            raise SessionError(f"{self.url}: POST {path} was interrupted ({reason})") from None

    async def delete(self, path: str, *, retry: bool = True) -> None:
        """DELETE; the response has no content."""
        await self._call("DELETE", path, retry=retry)

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.aclose()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        retry: bool,
        content: str | None = None,
        params: dict[str, int] | None = None,
    ) -> httpx.Response:
        headers = {} if content is None else JSON_BODY
        async with self._mapped_failures(f"{method} {path}"):
            async for attempt in self._attempts(retry):
                with attempt:
                    response = await self._send(
                        method, path, content=content, params=params, headers=headers
                    )
                    detail = _detail(response)
                    if detail is None and response.status_code in GATEWAY_STATUS:
                        raise _GatewayError(f"status {response.status_code}")
        if response.status_code >= 400:
            raise self._error(response, detail, f"{method} {path}")
        return response

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        async with self._least_busy_pool() as pool:
            return await pool.request(method, path, extensions=self._extensions, **request)

    @asynccontextmanager
    async def _least_busy_pool(self) -> AsyncIterator[httpx.AsyncClient]:
        """The pool with the fewest running calls, reserved for one more."""
        index = self._busy.index(min(self._busy))
        self._busy[index] += 1
        try:
            yield self._pools[index]
        finally:
            self._busy[index] -= 1

    def _new_pool(self, token: str | None, verify: ssl.SSLContext | bool) -> httpx.AsyncClient:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        headers |= NOT_COMPRESSED
        headers[TIMEOUT_HEADER] = f"{self._options.call_s:g}"
        return httpx.AsyncClient(
            base_url=self.url,
            mounts=mounts(self.url),
            headers=headers,
            event_hooks={"response": [bound_async]},
            verify=verify,
            timeout=httpx.Timeout(self._options.call_s, connect=min(5.0, self._options.call_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def _attempts(self, retry: bool) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type((httpx.TransportError, _GatewayError)),
            wait=wait_random_exponential(multiplier=0.1, max=2.0),
            stop=stop_after_delay(self._options.retry_s) if retry else stop_after_attempt(1),
            reraise=True,
        )

    @asynccontextmanager
    async def _mapped_failures(self, call: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._options.call_s):
                yield
        except TimeoutError:
            raise UnreachableError(
                f"{self.url}: {call} got no answer in {self._options.call_s:g} s"
            ) from None
        except (httpx.TransportError, _GatewayError) as error:
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"{self.url}: {call} cannot reach the server ({reason}); check that it is running"
            ) from None
        except AnswerError as error:
            raise ContractError(f"{self.url}: {call}: {error}") from None
        except httpx.InvalidURL as error:
            raise WorldError(f"url: {self.url!r} is not a URL ({error})") from None

    def _error(self, response: httpx.Response, detail: ErrorDetail | None, call: str) -> WorldError:
        if detail is None:
            return WorldError(
                f"{self.url}: {call} answered {response.status_code}, but not as an environment "
                "server; check the URL"
            )
        return self.error(detail, call, _retry_after_s(response))

    def error(self, detail: ErrorDetail, call: str, retry_after_s: float = 1.0) -> WorldError:
        """The exception for an error that the server reported."""
        message = f"{self.url}: {call}: {detail.message}"
        match detail.type:
            case "capacity":
                return CapacityError(message, retry_after_s=retry_after_s)
            case "draining":
                return UnreachableError(message)
            case "session" | "conflict" | "internal":
                return SessionError(message)
            case "task":
                return TaskError(message)
            case "contract" | "invalid":
                return ContractError(message)
            case "unauthorized":
                return WorldError(f"token: {message}; check the token")
            case "not_found":
                return WorldError(f"url: {message}; check the URL")

    def _read(self, response: httpx.Response, call: str, model: type[M]) -> M:
        return self.read(response.content, call, model)

    def read(self, content: bytes, call: str, model: type[M]) -> M:
        """Parse a response as `model`. Raises `ContractError` if it does not match."""
        try:
            return model.model_validate_json(content, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "the response"
            shown = short(first["input"])
            raise ContractError(
                f"{self.url}: {call}: {field} is {shown}: {first['msg'].lower()}"
            ) from None


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split at newlines. httpx's own line iterator also splits at other Unicode line separators,
    which JSON strings may contain."""
    begun: list[bytes] = []  # chunks of a line whose end has not come
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        for line in others:
            yield b"".join(begun)
            begun = [line]


def _detail(response: httpx.Response) -> ErrorDetail | None:
    """The error in a response; None: no error, or not one of an environment server."""
    if response.status_code < 400:
        return None
    try:
        return ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        return None


def _retry_after_s(response: httpx.Response) -> float:
    given = response.headers.get("retry-after", "1")
    return float(given) if given.isascii() and given.isdecimal() else 1.0
