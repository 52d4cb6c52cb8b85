"""JSON over HTTP: one policy for sessions, timeouts and errors of all clients.

Plain REST on aiohttp: Kopf loads aiohttp anyway, nothing blocks the event loop, and the official
Kubernetes client alone would need as much memory as the rest of the operator.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from agentrl_operator.clients.breaker import Breaker
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import DependencyError

CONNECT_TIMEOUT_S = 5.0
RETRYABLE = (401, 408, 409, 429)
"""HTTP statuses below 500 after which the same request can succeed later."""
LONGEST_REASON = 1000
"""Characters of a response that an error message quotes."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of any status, its body read."""

    status: int
    body: bytes

    def json(self) -> Mapping[str, Any] | None:
        """The JSON object in the body; empty for an empty body, None for any other content, such as
        the HTML page of a proxy."""
        try:
            content = json.loads(self.body) if self.body else {}
        except (ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    @property
    def reason(self) -> str:
        """What the body says about an error, in the fields that Kubernetes, KFP and MLflow use."""
        content = self.json()
        if content is None:
            return self.body[:300].decode(errors="replace")
        fields = ("error_message", "message", "error", "reason")
        found = next((content[name] for name in fields if content.get(name)), "no reason given")
        return str(found)[:LONGEST_REASON]


@dataclass(slots=True, eq=False)
class _Opened:
    """A session, and the number of its requests that are under way."""

    session: aiohttp.ClientSession
    requests: int = 0


class HttpClient:
    """Requests to one service. Close it after use."""

    def __init__(
        self,
        service: str,
        error: type[DependencyError],
        *,
        gate: WriteGate | None = None,
        timeout_s: float,
        session: Callable[[], aiohttp.ClientSession] | None = None,
        connections: int = 16,
        proxied: bool = True,
        longest_body: int | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """`service` names it in error messages and `error` is the class of all errors. `session`
        opens a session on the first request and after each `close`. Without `gate` writes are
        always sent. `proxied`: requests go through the proxy of the environment, if it has one.
        `longest_body`: bytes of a response that are read at most, for services that are not
        trusted; a longer response is an error, and none is decompressed. None: no limit.
        `breaker`: lets requests to a host that does not answer fail at once."""
        self.requests = 0
        """Requests sent so far."""
        self.renewals = 0
        """How often `renew` has replaced the session."""
        self._service = service
        self._error = error
        self._gate = gate or WriteGate()
        self._timeout_s = timeout_s
        self._connections, self._proxied = connections, proxied
        self._longest_body = longest_body
        self._breaker = breaker
        self._open_session = session or self._plain_session
        self._current: _Opened | None = None
        self._replaced: set[_Opened] = set()
        """Sessions that were replaced and have requests under way."""

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        opened, self._current = [self._current, *self._replaced], None
        self._replaced.clear()
        for one in opened:
            if one is not None:
                await _close(one.session)

    async def renew(self, renewals: int) -> None:
        """Send later requests in a new session, unless the session was replaced already since there
        were so many `renewals`. Requests under way end in the old one."""
        old = self._current
        if self.renewals != renewals or old is None:
            return
        self.renewals += 1
        self._current = None
        if old.requests:
            self._replaced.add(old)
        else:
            await _close(old.session)

    async def send(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        name: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        write: bool | None = None,
    ) -> Response:
        """Send a request and return its response, whatever its status.

        Args:
            url: absolute, or relative to the base URL of the session.
            name: stands for the URL in error messages.
            write: whether the request changes something and has to pass the write gate. None: yes,
                unless the method is GET.

        Raises:
            DependencyError: there was no response. The class is the `error` of this client.
            NotLeaderError: the write gate is closed; nothing was sent.
        """
        what = f"{self._service}: {method} {name}"
        headers = {"Content-Type": "application/json", **(headers or {})}
        with self._passage(what, write=method != "GET" if write is None else write):
            async with self._used_session() as session:
                try:
                    with self._counted(url):
                        self.requests += 1
                        async with session.request(
                            method,
                            url,
                            data=None if body is None else json.dumps(body),
                            params=dict(query) if query else None,
                            headers=headers,
                            allow_redirects=False,  # they could lead to any host in the cluster
                            timeout=aiohttp.ClientTimeout(
                                total=timeout_s or self._timeout_s, sock_connect=CONNECT_TIMEOUT_S
                            ),
                        ) as response:
                            return Response(response.status, await self._body(response))
                except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
                    # Some errors, a timeout for one, have no message of their own.
                    reason = str(error) or type(error).__name__
                    raise self._error(f"{what}: {reason}") from error

    @asynccontextmanager
    async def _used_session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """The session for one request. It is closed afterwards if it was replaced meanwhile and has
        no other request."""
        if self._current is None:
            self._current = _Opened(self._open_session())
        opened = self._current
        opened.requests += 1
        try:
            yield opened.session
        finally:
            opened.requests -= 1
            if not opened.requests and opened in self._replaced:
                self._replaced.remove(opened)
                await _close(opened.session)

    def content(self, response: Response, method: str, name: str) -> Mapping[str, Any]:
        """The JSON object of a successful response. Raises this client's error for a status of 300
        or more and for a body that is not a JSON object."""
        if response.status >= 300:
            raise self.rejection(response, method, name)
        content = response.json()
        if content is None:
            raise self._error(
                f"{self._service}: {method} {name}: the response is not a JSON object: "
                f"{response.reason}",
                status=response.status,
            )
        return content

    def rejection(self, response: Response, method: str, name: str) -> DependencyError:
        """The error for a response with a status of 300 or more."""
        return self._error(
            f"{self._service}: {method} {name}: {response.status}: {response.reason}",
            status=response.status,
            reason=str((response.json() or {}).get("reason") or "")[:LONGEST_REASON],
            retryable=response.status in RETRYABLE or response.status >= 500,
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        if self._longest_body is None:
            return await response.read()
        body = b""
        while block := await response.content.read(self._longest_body + 1 - len(body)):
            body += block
        if len(body) > self._longest_body:
            raise aiohttp.ClientPayloadError(
                f"the response is longer than {self._longest_body} bytes"
            )
        return body

    def _passage(self, what: str, *, write: bool) -> AbstractContextManager[None]:
        return self._gate.write(what) if write else nullcontext()

    def _counted(self, url: str) -> AbstractContextManager[None]:
        return self._breaker.request(urlsplit(url).netloc) if self._breaker else nullcontext()

    def _plain_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=self._connections)
        return aiohttp.ClientSession(
            connector=connector,
            trust_env=self._proxied,
            auto_decompress=self._longest_body is None,
            headers=None if self._longest_body is None else {"Accept-Encoding": "identity"},
        )


async def _close(session: aiohttp.ClientSession) -> None:
    """Close a session, without waiting for the TLS shutdown of its connections."""
    if isinstance(session.connector, aiohttp.TCPConnector):
        await session.connector.close(abort_ssl=True)
    await session.close()
