"""Kueue's objects, as Kubernetes' API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentrl_operator.manifests.workload import GROUP, PLURAL, VERSION

_API = f"apis/{GROUP}/{VERSION}"


class Kueue(Protocol):
    """What the operator asks of Kueue. Every method may raise `KubernetesError`. Workloads are made
    as any object is."""

    async def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """A Workload. None: there is none."""
        ...

    async def tell(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Merge into a Workload's status, unless it has another version than `change` names."""
        ...

    async def prioritize(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Merge into a Workload's spec."""
        ...

    async def remove(self, namespace: str, name: str) -> None:
        """Delete a Workload, if it is there."""
        ...

    async def flavor(self, name: str) -> Mapping[str, Any] | None:
        """A ResourceFlavor. None: there is none."""
        ...

    async def priority_class(self, name: str) -> Mapping[str, Any] | None:
        """A WorkloadPriorityClass. None: there is none."""
        ...


class Ask(Protocol):
    """A request to the API server; an empty answer where that is fine."""

    async def __call__(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        absent_is_fine: bool = False,
        read: bool = True,
    ) -> Mapping[str, Any]: ...


class KueueApi:
    """`Kueue` on a real one."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return await self._ask("GET", _workload(namespace, name), absent_is_fine=True) or None

    async def tell(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        path = f"{_workload(namespace, name)}/status"
        await self._ask("PATCH", path, change, absent_is_fine=True, read=False)

    async def prioritize(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        body = {"spec": change}
        path = _workload(namespace, name)
        await self._ask("PATCH", path, body, absent_is_fine=True, read=False)

    async def remove(self, namespace: str, name: str) -> None:
        await self._ask("DELETE", _workload(namespace, name), absent_is_fine=True, read=False)

    async def flavor(self, name: str) -> Mapping[str, Any] | None:
        return await self._ask("GET", f"{_API}/resourceflavors/{name}", absent_is_fine=True) or None

    async def priority_class(self, name: str) -> Mapping[str, Any] | None:
        path = f"{_API}/workloadpriorityclasses/{name}"
        return await self._ask("GET", path, absent_is_fine=True) or None


def _workload(namespace: str, name: str) -> str:
    return f"{_API}/namespaces/{namespace}/{PLURAL}/{name}"
