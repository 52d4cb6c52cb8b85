"""KubeRay's objects in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentrl_operator.clients.kubernetes_connection import Request
from agentrl_operator.manifests.ray_cluster import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class KubeRay(Protocol):
    """The objects of KubeRay. Every method may raise `KubernetesError`, and one that writes
    `NotLeaderError`. RayClusters are created with `Cluster.create`."""

    async def is_installed(self) -> bool:
        """Whether the cluster serves KubeRay's API."""
        ...

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A RayCluster; None if it does not exist."""
        ...

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        """Delete a RayCluster if it exists. It is there, with a deletion timestamp, until its pods
        have ended."""
        ...


class KubeRayApi:
    """`KubeRay` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def is_installed(self) -> bool:
        return bool(await self._request("GET", _API, ignore_not_found=True))

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        path = _ray_cluster(namespace, name)
        return await self._request("GET", path, ignore_not_found=True) or None

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        # With the policy Background the object would be gone before its pods have released their
        # GPUs.
        foreground = {"propagationPolicy": "Foreground"}
        path = _ray_cluster(namespace, name)
        await self._request("DELETE", path, foreground, ignore_not_found=True, parse=False)


def _ray_cluster(namespace: str, name: str) -> str:
    return f"{_API}/namespaces/{namespace}/{PLURAL}/{name}"
