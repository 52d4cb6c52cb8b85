"""The objects of optional controllers in the Kubernetes API: of KubeRay and of agent-sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from agentrl_operator.clients.kueue import Request
from agentrl_operator.manifests import ray_cluster, sandbox
from agentrl_operator.manifests.labels import RUN_UID

_RAY = f"apis/{ray_cluster.GROUP}/{ray_cluster.VERSION}"
_SANDBOXES = f"apis/{sandbox.GROUP}/{sandbox.VERSION}"


class KubeRayApi:
    """`KubeRay` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def is_installed(self) -> bool:
        return bool(await self._request("GET", _RAY, ignore_not_found=True))

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        path = f"{_RAY}/namespaces/{namespace}/{ray_cluster.PLURAL}/{name}"
        return await self._request("GET", path, ignore_not_found=True) or None

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        path = f"{_RAY}/namespaces/{namespace}/{ray_cluster.PLURAL}/{name}"
        await _delete(self._request, path)


class AgentSandboxApi:
    """`AgentSandbox` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def list_sandboxes(self, namespace: str, uid: str) -> Sequence[Mapping[str, Any]] | None:
        path = _sandboxes_path(namespace, uid)
        found = await self._request("GET", path, ignore_not_found=True)
        return found.get("items", ()) if found else None

    async def delete_sandbox(self, namespace: str, name: str) -> None:
        path = f"{_SANDBOXES}/namespaces/{namespace}/{sandbox.PLURAL}/{name}"
        await _delete(self._request, path)

    async def delete_sandboxes(self, namespace: str, uid: str) -> None:
        await _delete(self._request, _sandboxes_path(namespace, uid))


def _sandboxes_path(namespace: str, uid: str) -> str:
    path = f"{_SANDBOXES}/namespaces/{namespace}/{sandbox.PLURAL}"
    return f"{path}?labelSelector={quote(f'{RUN_UID}={uid}', safe='')}"


async def _delete(request: Request, path: str) -> None:
    """Delete what is there, and let Kubernetes delete what it owns."""
    background = {"propagationPolicy": "Background"}
    await request("DELETE", path, background, ignore_not_found=True, parse=False)
