"""KubeRay in memory: RayClusters, and which of their pods are ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

from agentrl_operator.clients.pods import Pod
from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.testing.memory_kueue import Children


class MemoryKubeRay:
    """`KubeRay` in memory, over the objects of a `MemoryCluster`."""

    def __init__(self, children: Children, check: Callable[[], None]) -> None:
        self.installed = True
        self.ready = True
        """Whether the pods of all RayClusters are ready."""
        self.problem = ""
        """The problem of the pods that are not."""
        self._children = children
        self._check = check

    async def is_installed(self) -> bool:
        self._check()
        return self.installed

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        self._check()
        return deepcopy(self._children.get(("RayCluster", namespace, name)))

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        self._check()
        self._children.pop(("RayCluster", namespace, name), None)

    def clusters(self) -> list[Manifest]:
        """All RayClusters."""
        return [body for (kind, _, _), body in self._children.items() if kind == "RayCluster"]

    def pods(self, names: Collection[str]) -> Sequence[Pod]:
        """The pods of RayClusters with these names."""
        counts = [
            {"head": 1, **{one["groupName"]: one["replicas"] for one in groups}}
            for body in self.clusters()
            if body["metadata"]["name"] in names
            for groups in [body["spec"]["workerGroupSpecs"]]
        ]
        problem = "" if self.ready else self.problem
        return [
            Pod(part=group, run_id="", ended=False, ready=self.ready, problem=problem)
            for one in counts
            for group, count in one.items()
            for _ in range(count)
        ]
