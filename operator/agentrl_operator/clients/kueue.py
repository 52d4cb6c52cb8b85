"""Kueue's objects in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentrl_operator.manifests.workload import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class Request(Protocol):
    """`KubernetesConnection.request`."""

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


class KueueApi:
    """`Kueue` of a real cluster."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def get_workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        path = _workload(namespace, name)
        return await self._request("GET", path, ignore_not_found=True) or None

    async def patch_workload_status(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        path = f"{_workload(namespace, name)}/status"
        await self._request("PATCH", path, change, ignore_not_found=True, parse=False)

    async def patch_workload_spec(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        body, path = {"spec": change}, _workload(namespace, name)
        await self._request("PATCH", path, body, ignore_not_found=True, parse=False)

    async def delete_workload(self, namespace: str, name: str) -> None:
        path = _workload(namespace, name)
        await self._request("DELETE", path, ignore_not_found=True, parse=False)

    async def get_resource_flavor(self, name: str) -> Mapping[str, Any] | None:
        path = f"{_API}/resourceflavors/{name}"
        return await self._request("GET", path, ignore_not_found=True) or None

    async def get_priority_class(self, name: str) -> Mapping[str, Any] | None:
        path = f"{_API}/workloadpriorityclasses/{name}"
        return await self._request("GET", path, ignore_not_found=True) or None


def _workload(namespace: str, name: str) -> str:
    return f"{_API}/namespaces/{namespace}/{PLURAL}/{name}"
