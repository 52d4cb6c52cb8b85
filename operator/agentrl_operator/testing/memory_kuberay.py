"""KubeRay in memory: RayClusters, and which of their pods are ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from agentrl_operator.clients.pods import Pod
from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.testing.memory_kueue import Children
from agentrl_pipelines.labels import QUEUE_LABEL


class MemoryKubeRay:
    """`KubeRay` in memory, over the objects of a `MemoryCluster`."""

    def __init__(self, children: Children, check: Callable[[], None]) -> None:
        self.installed = True
        self.ready = True
        """Whether the pods of all RayClusters are ready."""
        self.problem = ""
        """The problem of the pods that are not."""
        self.pods_linger = False
        """Whether pods do not end until `end_pods` is called. A RayCluster stays as long."""
        self.suspended = False
        """Whether Kueue has suspended the RayClusters that name a queue, which have no pods then.
        """
        self.stuck = ""
        """Why pods of deleted RayClusters do not end."""
        self._children = children
        self._check = check

    async def is_installed(self) -> bool:
        self._check()
        return self.installed

    async def get_ray_cluster(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        self._check()
        body = deepcopy(self._children.get(("RayCluster", namespace, name)))
        if body is not None and self._is_suspended(body):
            body["spec"]["suspend"] = True
        return body

    async def delete_ray_cluster(self, namespace: str, name: str) -> None:
        self._check()
        key = ("RayCluster", namespace, name)
        if self.pods_linger and key in self._children:
            deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
            self._children[key]["metadata"] = self._children[key]["metadata"] | deleted
        else:
            self._children.pop(key, None)

    def end_pods(self) -> None:
        """End the pods of deleted RayClusters."""
        self.pods_linger = False
        for key in [key for key, body in self._children.items() if _is_deleted(key, body)]:
            del self._children[key]

    def clusters(self) -> list[Manifest]:
        """All RayClusters."""
        return [body for (kind, _, _), body in self._children.items() if kind == "RayCluster"]

    def pods(self, names: Collection[str]) -> Sequence[Pod]:
        """The pods of RayClusters with these names."""
        found = [body for body in self.clusters() if body["metadata"]["name"] in names]
        return [pod for body in found for pod in self._pods(body)]

    def _is_suspended(self, body: Manifest) -> bool:
        return self.suspended and QUEUE_LABEL in body["metadata"]["labels"]

    def _pods(self, body: Manifest) -> Iterator[Pod]:
        if self._is_suspended(body):
            return
        terminating = "deletionTimestamp" in body["metadata"]
        stuck = self.stuck if terminating else ""
        problem = "" if self.ready else self.problem
        groups = {one["groupName"]: one["replicas"] for one in body["spec"]["workerGroupSpecs"]}
        for group, count in {"head": 1, **groups}.items():
            for _ in range(count):
                yield Pod(
                    part=group,
                    run_id="",
                    ended=False,
                    ready=self.ready,
                    terminating=terminating,
                    stuck=stuck,
                    problem=stuck or problem,
                    reason=(stuck or problem).partition(":")[0],
                )


def _is_deleted(key: tuple[str, str, str], body: Manifest) -> bool:
    return key[0] == "RayCluster" and "deletionTimestamp" in body["metadata"]
