"""Authenticated requests to the Kubernetes API server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import aiohttp
import kopf
import yaml

from agentrl_operator.clients.http import HttpClient
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.labels import MANAGER

_INVALID = (
    OSError,
    yaml.YAMLError,
    kopf.LoginError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What Kopf raises for a kubeconfig: it checks neither the syntax nor the types of the file."""


class Request(Protocol):
    """`KubernetesConnection.request`, as the clients of single APIs call it."""

    async def __call__(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        ignore_not_found: bool = False,
        parse: bool = True,
        write: bool | None = None,
    ) -> Mapping[str, Any]: ...


async def delete_with_dependents(request: Request, path: str) -> None:
    """Delete the object or the collection at `path`, if it exists; Kubernetes deletes the objects
    that it owns afterwards."""
    background = {"propagationPolicy": "Background"}
    await request("DELETE", path, background, ignore_not_found=True, parse=False)


def login() -> kopf.ConnectionInfo:
    """Address and credentials of the API server, from the pod's service account or else from
    KUBECONFIG. Raises `KubernetesError` where there is neither, and for an invalid KUBECONFIG."""
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(settings=settings)
    try:
        info = info or kopf.login_with_kubeconfig(settings=settings)
    except _INVALID as error:
        reason = " ".join(str(error).split())
        raise KubernetesError(
            f"KUBECONFIG: {os.environ.get('KUBECONFIG') or '~/.kube/config'}: cannot be used "
            f"({type(error).__name__}: {reason}); correct it, or set KUBECONFIG to another file",
            retryable=False,
        ) from None
    if info is None:
        raise KubernetesError(
            "Kubernetes: no service account and no kubeconfig; set KUBECONFIG", retryable=False
        )
    return info


class KubernetesConnection:
    """A connection to one API server, whose credentials are renewed when they expire. Close it
    after use."""

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo],
        gate: WriteGate | None,
        *,
        connections: int,
        timeout_s: float,
    ) -> None:
        self._login = login
        self._connections = connections
        self._http = HttpClient(
            "Kubernetes", KubernetesError, gate=gate, timeout_s=timeout_s, session=self._session
        )
        self.close = self._http.close

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._http.requests

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        patch: str = "application/merge-patch+json",
        ignore_not_found: bool = False,
        parse: bool = True,
        write: bool | None = None,
    ) -> Mapping[str, Any]:
        """Send a request; after a 401 log in again and repeat it once.

        Args:
            path: below the address of the server, with its query.
            patch: content type of a PATCH.
            ignore_not_found: return an empty object for a 404.
            parse: False returns an empty object and does not read the response's JSON.
            write: as in `HttpClient.send`.

        Raises:
            KubernetesError: the API server rejected the request or did not respond.
            NotLeaderError: the write gate is closed.
        """
        headers = {"Content-Type": patch} if method == "PATCH" else {}
        name, renewals = path.partition("?")[0], self._http.renewals
        response = await self._http.send(
            method, path, body, name=name, headers=headers, write=write
        )
        if response.status == 401:
            # Other requests may have met the expired token, too, and logged in again.
            await self._http.renew(renewals)
            response = await self._http.send(
                method, path, body, name=name, headers=headers, write=write
            )
        if response.status == 404 and ignore_not_found:
            return {}
        if response.status >= 300:
            raise self._http.rejection(response, method, name)
        return self._http.content(response, method, name) if parse else {}

    def _session(self) -> aiohttp.ClientSession:
        info = self._login()
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=info.as_ssl_context())
        # Inside a cluster, compressing a list costs both sides more than sending it as it is.
        headers = {**info.as_http_headers(), "Accept-Encoding": "identity"}
        headers["User-Agent"] = MANAGER  # the manager of fields in an object's managedFields
        base_url = f"{info.server.rstrip('/')}/"
        return aiohttp.ClientSession(base_url, connector=connector, headers=headers)
