"""Whether a KFP run that should work does: once in a while, since it costs two questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.clients import pods
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.planning.observation import Unknown
from agentrl_pipelines.labels import KFP_RUN_LABEL, RUN_LABEL

LOOK_S = 60.0
"""Between two looks at a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One look."""

    run_id: str
    at: float
    """By the operator's clock."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """lost: missing twice. KFP itself would say RUNNING for ever."""
    trouble: str = ""
    """What keeps its pods from working."""


class Pulse:
    """The newest beat of each run that works."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._beats: dict[str, Beat] = {}

    def forget(self, uid: str) -> None:
        """The run works no more."""
        self._beats.pop(uid, None)

    async def feel(
        self, resource: Resource, run_id: str, kfp: KfpRun | Unknown | None, *, behind: bool
    ) -> Beat:
        """The newest beat of this KFP run of a run; `behind`: environment servers are missing.
        Raises `KubernetesError`."""
        now = self._clock()
        if not isinstance(kfp, KfpRun) or not kfp.alive:
            self.forget(resource.uid)
            return Beat(run_id=run_id, at=now)
        last = self._beats.get(resource.uid)
        if last is None or last.run_id != run_id:
            last = self._beats[resource.uid] = Beat(run_id=run_id, at=now)
        elif now - last.at >= LOOK_S:
            last = self._beats[resource.uid] = await self._look(resource, last, now, behind)
        return last

    async def _look(self, resource: Resource, last: Beat, now: float, behind: bool) -> Beat:
        namespace = resource.namespace
        there = await self._cluster.workflow_phases(namespace, last.run_id)
        missed = last.workflow in ("missing", "lost")
        seen = [*await self._cluster.list_pods(namespace, KFP_RUN_LABEL, (last.run_id,))]
        if behind:
            seen += await self._cluster.list_pods(namespace, RUN_LABEL, (resource.name,))
        return Beat(
            run_id=last.run_id,
            at=now,
            workflow="there" if there else "lost" if missed else "missing",
            trouble=pods.troubles([pod for pod in seen if not pod.ended]),
        )
