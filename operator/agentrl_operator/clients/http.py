"""Requests to the API server, by a login that is renewed when it has run out.

Plain REST on aiohttp: Kopf has it loaded, nothing blocks, and the official client would take as
much memory as the rest of the operator together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import aiohttp
import kopf

from agentrl_operator.clients.answers import parsed, why
from agentrl_operator.clients.write_gate import Term
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.environment_server import MANAGER


@dataclass(slots=True)
class _Session:
    server: str
    client: aiohttp.ClientSession


def login() -> kopf.ConnectionInfo:
    """Where the API server is and who we are: the pod's service account, else KUBECONFIG."""
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )
    if info is None:
        raise KubernetesError(
            "Kubernetes: no service account and no kubeconfig; set KUBECONFIG", retryable=False
        )
    return info


class Connection:
    """To one API server. To be closed."""

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo],
        term: Term,
        *,
        free: str,
        requests_at_once: int,
        timeout_s: float,
    ) -> None:
        """Asks for no change outside of `term`, but of paths that begin with `free`."""
        self._login = login
        self._term = term
        self._free = free
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        self._limit = requests_at_once
        self._session: _Session | None = None
        self.requests = 0
        """Sent so far."""

    async def close(self) -> None:
        """Let the connections go; the next request makes new ones."""
        if self._session is not None:
            connector = self._session.client.connector
            if connector is not None:
                await connector.close(abort_ssl=True)  # no farewell: nothing would read the answer
            await self._session.client.close()
            self._session = None

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = "application/merge-patch+json",
        absent_is_fine: bool = False,
        read: bool = True,
    ) -> Mapping[str, Any]:
        """The answer; empty where the object is absent and that is fine, and where nobody is to
        `read` it. A login that has run out is renewed once."""
        for again in (True, False):
            with self._allowed(method, path):
                status, answer = await self._sent(method, path, body, kind)
            if status == 401 and again:
                await self.close()
                continue
            if status == 404 and absent_is_fine:
                return {}
            if status >= 400:
                raise _refused(method, path, status, parsed(answer))
            return parsed(answer) if read else {}
        raise AssertionError("unreachable")

    def _allowed(self, method: str, path: str) -> AbstractContextManager[None]:
        free = method == "GET" or path.startswith(self._free)
        return nullcontext() if free else self._term.change(f"Kubernetes: {method} {path}")

    async def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, kind: str
    ) -> tuple[int, bytes]:
        session = self._connected()
        headers = {"Content-Type": kind if method == "PATCH" else "application/json"}
        data = None if body is None else json.dumps(body)
        self.requests += 1
        try:
            async with session.client.request(
                method, f"{session.server}/{path}", data=data, headers=headers
            ) as response:
                return response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise KubernetesError(f"Kubernetes: {method} {path}: {why(error)}") from error

    def _connected(self) -> _Session:
        if self._session is None:
            info = self._login()
            connector = aiohttp.TCPConnector(limit=self._limit, ssl=info.as_ssl_context())
            # To compress a list costs both sides more than to send it whole, inside a cluster.
            headers = {**info.as_http_headers(), "Accept-Encoding": "identity"}
            headers["User-Agent"] = MANAGER  # so an object's managedFields tell who wrote
            client = aiohttp.ClientSession(
                connector=connector, headers=headers, timeout=self._timeout
            )
            self._session = _Session(info.server.rstrip("/"), client)
        return self._session


def _refused(method: str, path: str, status: int, answer: Mapping[str, Any]) -> KubernetesError:
    reason = answer.get("message") or answer.get("reason") or "no reason given"
    return KubernetesError(
        f"Kubernetes: {method} {path.partition('?')[0]}: {status}: {reason}",
        status=status,
        retryable=status in (401, 409, 429) or status >= 500,
    )
