"""Calls to AgentGym's servers, and whose each of a server's session numbers is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from agentrl_envs.client.background import Background
from agentrl_envs.errors import ContractError, SessionError, UnreachableError, WorldError
from agentrl_envs.http.answers import NOT_COMPRESSED, AnswerError, bound_async
from agentrl_envs.http.proxies import mounts
from agentrl_envs.http.received import MAX_TEXT_CHARS, parse_json, short

Number = int | str
"""What a server calls a session."""

MAX_CONNECTIONS = 1024

CLOSE_S = 10.0
"""Seconds that the end of a world waits for sessions that are closed in the background."""


class JsonServer:
    """JSON over HTTP, one attempt for each call; and which session holds which number."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = timeout_s
        self._holders: dict[Number, object] = {}
        """The session that each number names."""
        self.background = Background()
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS)
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers=NOT_COMPRESSED,
            event_hooks={"response": [bound_async]},
            timeout=timeout_s,
            limits=limits,
            mounts=mounts(self.url),
        )

    async def greeting(self) -> str:
        """What `GET /` says; empty if there is no such route."""
        try:
            return (await self._send("GET", "/")).text[:MAX_TEXT_CHARS]
        except httpx.InvalidURL as error:
            raise WorldError(f"url: {self.url!r} is not a URL ({error})") from None

    async def get(self, path: str, parameters: Mapping[str, Any]) -> Any:
        """GET JSON."""
        response = await self._send("GET", path, params=parameters)
        return self._read(response, f"GET {path}")

    async def post(
        self, path: str, body: Mapping[str, Any] | None, *, wait_s: float | None = None
    ) -> Any:
        """POST JSON, or nothing, for JSON. Waits `wait_s` seconds for the answer in place of the
        timeout. Raises `SessionError` for an error that is hidden in an answer of status 200."""
        content: dict[str, Any] = {} if body is None else {"json": body}
        if wait_s is not None:
            content["timeout"] = httpx.Timeout(self.timeout_s, read=max(wait_s, self.timeout_s))
        return self._read(await self._send("POST", path, **content), f"POST {path}")

    def take(self, number: Number, session: object) -> None:
        """The server has given the session this number. A session that held it holds it no longer:
        a number is given twice only by a server that was restarted."""
        self._holders[number] = session

    def holds(self, number: Number | None, session: object) -> bool:
        """Whether the number is, as far as is known, still the session's."""
        return number is not None and self._holders.get(number) is session

    def release(self, number: Number | None, session: object) -> bool:
        """The session needs its number no longer. Returns whether it held it, so that the server
        has to be told."""
        if number is None or not self.holds(number, session):
            return False
        del self._holders[number]
        return True

    async def close(self) -> None:
        """Close late sessions and the connections."""
        await self.background.close(CLOSE_S)
        await self._client.aclose()

    async def _send(self, method: str, path: str, **content: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **content)
        except httpx.TransportError as error:
            if isinstance(error, httpx.ConnectError) and _is_refused(error):
                self._holders.clear()  # the server is not running: its sessions are lost
            reason = str(error) or type(error).__name__
            raise UnreachableError(
                f"{self.url}: {method} {path} got no answer ({reason}); check that it is running"
            ) from None
        except AnswerError as error:
            raise ContractError(f"{self.url}: {method} {path}: {error}") from None

    def _read(self, response: httpx.Response, call: str) -> Any:
        if response.status_code in (404, 405, 422):
            raise WorldError(
                f"{self.url}: {call} answered {response.status_code}: {short(response.text)}; "
                "check the URL and the family"
            )
        if response.status_code != 200:
            raise SessionError(
                f"{self.url}: {call} answered {response.status_code}: {short(response.text)}"
            )
        try:
            answer = parse_json(response.content)
        except ValueError:
            raise ContractError(f"{self.url}: {call} answered {short(response.text)}") from None
        if isinstance(answer, dict) and set(answer) == {"error"}:
            raise SessionError(f"{self.url}: {call} answered the error {short(answer['error'])}")
        return answer


def _is_refused(error: BaseException | None) -> bool:
    """Whether a failed connection was refused at every address: nothing listens there."""
    if isinstance(error, ExceptionGroup):
        return all(map(_is_refused, error.exceptions))
    return isinstance(error, ConnectionRefusedError) or (
        error is not None and _is_refused(error.__cause__ or error.__context__)
    )
