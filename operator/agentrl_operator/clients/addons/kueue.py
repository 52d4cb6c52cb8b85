"""Kueue's objects in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentrl_operator.clients.kubernetes_connection import Request
from agentrl_operator.manifests.workload import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class Kueue(Protocol):
    """The objects of Kueue. Every method may raise `KubernetesError`, and one that writes
    `NotLeaderError`. Workloads are created with `Cluster.create`."""

    async def get_workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A Workload; None if it does not exist."""
        ...

    async def patch_workload_status(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        """Merge into the status of a Workload; rejected if `change` names another resourceVersion
        than the Workload has."""
        ...

    async def patch_workload_spec(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        """Merge into the spec of a Workload."""
        ...

    async def delete_workload(self, namespace: str, name: str) -> None:
        """Delete a Workload if it exists."""
        ...

    async def get_resource_flavor(self, name: str) -> Mapping[str, Any] | None:
        """A ResourceFlavor; None if it does not exist."""
        ...

    async def get_priority_class(self, name: str) -> Mapping[str, Any] | None:
        """A WorkloadPriorityClass; None if it does not exist."""
        ...


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
