"""Checks that a KFP run that should be working has its Workflow and that its pods can run.

A check takes two requests to the API server, so each run is checked once a minute. It also says
when Services and Secrets, which are not watched, are to be created again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.clients import pods
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.planning.observation import Unknown
from agentrl_pipelines.labels import KFP_RUN_LABEL, RUN_LABEL

FIRST_CHECK_S = 20.0
"""Time from the start of a KFP run to its first check."""
CHECK_PERIOD_S = 60.0
"""Interval between two checks of a run."""
RESTORE_PERIOD_S = 300.0
"""Interval after which Services and Secrets are created again that somebody may have deleted."""
UNSCHEDULABLE = "Unschedulable"
"""Reason of pods that fit on no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """The result of a check."""

    run_id: str
    at: float
    """Time of the check, by the operator's clock."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """`lost`: it was missing in two checks in a row, and KFP would report the run as RUNNING for
    ever."""
    pod_problem: str = ""
    """Why pods of the run cannot work."""
    unschedulable: bool = False
    """Whether a pod waits for a node."""
    blocked_since: float | None = None
    """Since when every check has found a pod that cannot start. None: all pods can start."""
    restored_at: float = 0.0
    """When Services and Secrets were last due to be created again."""
    restore_due: bool = False
    """Whether they are due now."""


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
        last = self._latest.get(resource.uid)
        if last is None or last.run_id != run_id:
            # An earlier check is assumed, so that the first real one comes sooner.
            at = now - CHECK_PERIOD_S + FIRST_CHECK_S
            last = HealthCheck(run_id=run_id, at=at, restored_at=now)
        elif isinstance(kfp, KfpRun) and kfp.alive and now - last.at >= CHECK_PERIOD_S:
            last = await self._check(resource, last, now, servers_missing)
            self._latest[resource.uid] = last
            return last
        self._latest[resource.uid] = last
        return replace(last, restore_due=False)

    async def _check(
        self, resource: Resource, last: HealthCheck, now: float, servers_missing: bool
    ) -> HealthCheck:
        namespace = resource.namespace
        there = await self._cluster.workflow_phases(namespace, last.run_id)
        missed = last.workflow in ("missing", "lost")
        found = [*await self._cluster.list_pods(namespace, KFP_RUN_LABEL, (last.run_id,))]
        if servers_missing:
            found += await self._cluster.list_pods(namespace, RUN_LABEL, (resource.name,))
        working = [pod for pod in found if not pod.ended]
        blocked = pods.cannot_start(working)
        since = last.blocked_since if last.blocked_since is not None else now
        restore = blocked or now - last.restored_at >= RESTORE_PERIOD_S
        return HealthCheck(
            run_id=last.run_id,
            at=now,
            workflow="there" if there else "lost" if missed else "missing",
            pod_problem=pods.problem_summary(working),
            unschedulable=UNSCHEDULABLE in pods.problem_reasons(working),
            blocked_since=since if blocked else None,
            restored_at=now if restore else last.restored_at,
            restore_due=restore,
        )
