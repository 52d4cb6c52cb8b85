"""The objects of agent-sandbox in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from agentrl_operator.clients.kubernetes_connection import Request, delete_with_dependents
from agentrl_operator.manifests.labels import RUN_UID
from agentrl_operator.manifests.sandbox import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class AgentSandbox(Protocol):
    """The objects of agent-sandbox. Every method may raise `KubernetesError`, and one that writes
    `NotLeaderError`. Sandboxes are created with `Cluster.create`."""

    async def list_sandboxes(self, namespace: str, uid: str) -> Sequence[Mapping[str, Any]] | None:
        """The Sandboxes of the run with this uid; None if the cluster does not serve their API."""
        ...

    async def delete_sandbox(self, namespace: str, name: str) -> None:
        """Delete a Sandbox if it exists."""
        ...

    async def delete_sandboxes(self, namespace: str, uid: str) -> None:
        """Delete every Sandbox of the run with this uid."""
        ...


class AgentSandboxApi:
    """`AgentSandbox` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def list_sandboxes(self, namespace: str, uid: str) -> Sequence[Mapping[str, Any]] | None:
        path = f"{_sandboxes(namespace)}{_of_run(uid)}"
        found = await self._request("GET", path, ignore_not_found=True)
        return found.get("items", ()) if found else None

    async def delete_sandbox(self, namespace: str, name: str) -> None:
        await delete_with_dependents(self._request, f"{_sandboxes(namespace)}/{name}")

    async def delete_sandboxes(self, namespace: str, uid: str) -> None:
        await delete_with_dependents(self._request, f"{_sandboxes(namespace)}{_of_run(uid)}")


def _sandboxes(namespace: str) -> str:
    return f"{_API}/namespaces/{namespace}/{PLURAL}"


def _of_run(uid: str) -> str:
    return f"?labelSelector={quote(f'{RUN_UID}={uid}', safe='')}"
