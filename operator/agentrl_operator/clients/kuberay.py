"""KubeRay's objects in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrl_operator.clients.kueue import Request
from agentrl_operator.manifests.ray_cluster import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class KubeRayApi:
    """`KubeRay` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def is_installed(self) -> bool:
        return bool(await self._request("GET", _API, ignore_not_found=True))

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        path = f"{_API}/namespaces/{namespace}/{PLURAL}/{name}"
        return await self._request("GET", path, ignore_not_found=True) or None

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        path = f"{_API}/namespaces/{namespace}/{PLURAL}/{name}?propagationPolicy=Background"
        await self._request("DELETE", path, ignore_not_found=True, parse=False)
