"""Checks that a KFP run that should be working has its Workflow and that its pods can run.

A check takes two requests to the API server, so each run is checked once a minute.
"""

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

CHECK_PERIOD_S = 60.0
"""Interval between two checks of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """The result of a check."""

    run_id: str
    at: float
    """Time of the check, by the operator's clock."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """lost: missing in two checks in a row. KFP would report the run as RUNNING for ever."""
    pod_problem: str = ""
    """Why pods of the run cannot work."""


class WorkflowHealth:
    """The latest check of each run that is working."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._latest: dict[str, HealthCheck] = {}

    def forget(self, uid: str) -> None:
        """Drop the latest check of a run that no longer works."""
        self._latest.pop(uid, None)

    async def check(
        self,
        resource: Resource,
        run_id: str,
        kfp: KfpRun | Unknown | None,
        *,
        servers_missing: bool,
    ) -> HealthCheck:
        """The latest check of this KFP run, repeated when it is due. `servers_missing`: look at the
        pods of the environment servers, too.

        Raises:
            KubernetesError: The API server did not answer.
        """
        now = self._clock()
        if not isinstance(kfp, KfpRun) or not kfp.alive:
            self.forget(resource.uid)
            return HealthCheck(run_id=run_id, at=now)
        last = self._latest.get(resource.uid)
        if last is None or last.run_id != run_id:
            last = self._latest[resource.uid] = HealthCheck(run_id=run_id, at=now)
        elif now - last.at >= CHECK_PERIOD_S:
            last = self._latest[resource.uid] = await self._check(
                resource, last, now, servers_missing
            )
        return last

    async def _check(
        self, resource: Resource, last: HealthCheck, now: float, servers_missing: bool
    ) -> HealthCheck:
        namespace = resource.namespace
        there = await self._cluster.workflow_phases(namespace, last.run_id)
        missed = last.workflow in ("missing", "lost")
        found = [*await self._cluster.list_pods(namespace, KFP_RUN_LABEL, (last.run_id,))]
        if servers_missing:
            found += await self._cluster.list_pods(namespace, RUN_LABEL, (resource.name,))
        return HealthCheck(
            run_id=last.run_id,
            at=now,
            workflow="there" if there else "lost" if missed else "missing",
            pod_problem=pods.problem_summary([pod for pod in found if not pod.ended]),
        )
