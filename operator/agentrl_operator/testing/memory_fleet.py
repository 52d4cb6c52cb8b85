"""Environment servers in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

from agentrl_operator.clients.fleet import ServerPod
from agentrl_operator.errors import ServerMetricsError
from agentrl_operator.manifests.metadata import Manifest


class MemoryFleet:
    """`Fleet` in memory: the pods and loads that a test sets."""

    def __init__(
        self,
        children: MutableMapping[tuple[str, str, str], Manifest],
        check: Callable[[], None],
    ) -> None:
        """`children` are the objects of the cluster; `check` raises an error if it is down."""
        self._children = children
        self._check = check
        self.pods: dict[str, tuple[str, int, int] | None] = {}
        """Environment, sessions and capacity by name of the pod. None: the server is silent."""
        self.metrics: set[str] = set()
        """Metrics of pods that the cluster serves."""
        self.costs: dict[str, int] = {}
        """Deletion costs by pod."""

    async def ready_pods(self, namespace: str, uid: str) -> Sequence[ServerPod]:
        self._check()
        return [
            ServerPod(name=name, environment=name.rpartition("-")[0], address=name)
            for name in self.pods
        ]

    async def sessions(self, pod: ServerPod) -> tuple[int, int]:
        load = self.pods[pod.name]
        if load is None:
            raise ServerMetricsError(f"environment server: {pod.name}: connection refused")
        return load[1], load[2]

    async def serves_metric(self, metric: str) -> bool:
        self._check()
        return metric in self.metrics

    async def scale(self, namespace: str, name: str, replicas: int) -> None:
        self._check()
        deployment = self._children.get(("Deployment", namespace, name))
        if deployment is not None:
            deployment["spec"]["replicas"] = replicas

    async def set_deletion_costs(self, namespace: str, costs: Mapping[str, int]) -> None:
        self._check()
        self.costs |= costs

    async def apply_autoscaler(self, manifest: Manifest) -> None:
        self._check()
        metadata = manifest["metadata"]
        key = (manifest["kind"], metadata["namespace"], metadata["name"])
        self._children[key] = manifest

    async def delete_autoscaler(self, namespace: str, name: str) -> None:
        self._check()
        self._children.pop(("HorizontalPodAutoscaler", namespace, name), None)
