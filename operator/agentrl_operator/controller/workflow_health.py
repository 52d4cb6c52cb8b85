"""Checks that a KFP run that should be working has its Workflow and that its pods can run; before
its start, that the pods of the environment servers can.

A check takes up to three requests to the API server, so each run is checked once a minute. It also
says when Services and Secrets, which are not watched, are to be created again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from agentrl_operator.api.conditions import Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.clients import pods
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.planning.observation import Servers, Unknown
from agentrl_pipelines.labels import KFP_RUN_LABEL, RUN_LABEL

FIRST_CHECK_S = 20.0
"""Time from the start of a KFP run, or of the wait for servers before it, to the first check."""
CHECK_PERIOD_S = 60.0
"""Interval between two checks of a run."""
RESTORE_PERIOD_S = 300.0
"""Interval after which what somebody may have deleted is created again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """The result of a check."""

    run_id: str
    started: bool
    """Whether KFP has the run. False: it waits for environment servers."""
    at: float
    """Time of the check, by the operator's clock."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """`lost`: it was missing in two checks in a row, and KFP would report the run as RUNNING for
    ever."""
    pod_problem: str = ""
    """Why pods of the run cannot work."""
    server_problem: str = ""
    """Why some of them, of environment servers, cannot work."""
    waits_for: Reason | None = None
    """What needed pods wait for: those of stages, and all pods of an environment without a ready
    server. None: nothing but their own start."""
    queued: bool = False
    """Whether no stage works because needed pods wait in Kueue's queue."""
    blocked_since: float | None = None
    """Since when every check has found a needed pod that cannot start. None: all can start."""
    restored_at: float = 0.0
    """When it was last due to create again what somebody may have deleted."""
    restore_due: bool = False
    """Whether that is due now."""
    may_lack_object: bool = False
    """Whether a needed pod cannot start that may lack an object, such as the token Secret."""


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
        servers: Mapping[str, Servers],
        *,
        lacking: bool = False,
    ) -> HealthCheck:
        """The latest check of this KFP run, repeated when it is due. `servers` are the environment
        servers of the run, by name of the Deployment; `lacking`: a pod of its Ray cluster may lack
        an object.

        Raises:
            KubernetesError: The API server did not answer.
        """
        now = self._clock()
        last = self._latest.get(resource.uid)
        if last is None or last.run_id != run_id or last.started is (kfp is None):
            # An earlier check is assumed, so that the first real one comes sooner.
            at = now - CHECK_PERIOD_S + FIRST_CHECK_S
            last = HealthCheck(run_id=run_id, started=kfp is not None, at=at, restored_at=now)
        elif (lacking or _is_due(kfp, servers)) and now - last.at >= CHECK_PERIOD_S:
            last = await self._check(resource, last, now, servers, lacking)
            self._latest[resource.uid] = last
            return last
        self._latest[resource.uid] = last
        return replace(last, restore_due=False)

    async def _check(
        self,
        resource: Resource,
        last: HealthCheck,
        now: float,
        servers: Mapping[str, Servers],
        lacking: bool,
    ) -> HealthCheck:
        workflow, stages, refusal = await self._work(resource, last)
        serving = await self._server_pods(resource, servers)
        starved = [
            pod for pod in serving if not _is_served(pod, resource, servers, started=last.started)
        ]
        present, needed = [*stages, *serving], [*stages, *starved]
        blocked, waits_for = pods.cannot_start(needed), pods.waiting_reason(needed)
        if waits_for is None and refusal:
            waits_for = Reason.POD_NOT_CREATED
        since = last.blocked_since if last.blocked_since is not None else now
        # Creating objects again ends no crash loop.
        lacking = lacking or pods.may_lack_object(needed)
        restore = lacking or now - last.restored_at >= RESTORE_PERIOD_S
        return HealthCheck(
            run_id=last.run_id,
            started=last.started,
            at=now,
            workflow=workflow,
            pod_problem="; ".join(filter(None, (refusal, pods.problem_summary(present)))),
            server_problem=pods.problem_summary(serving),
            waits_for=waits_for,
            queued=waits_for == Reason.QUEUED and not any(pod.ready for pod in stages),
            # Servers are waited for without a limit before a phase.
            blocked_since=since if blocked and last.started else None,
            restored_at=now if restore else last.restored_at,
            restore_due=restore,
            may_lack_object=lacking,
        )

    async def _work(
        self, resource: Resource, last: HealthCheck
    ) -> tuple[Literal["unknown", "there", "missing", "lost"], list[pods.Pod], str]:
        """What Kubernetes has of the Workflow of a KFP run, the pods of its stages, and why a pod
        is not created."""
        if not last.started:
            return "unknown", [], ""
        namespace = resource.namespace
        there = await self._cluster.list_workflows(namespace, last.run_id)
        missed = last.workflow in ("missing", "lost")
        found = await self._cluster.list_pods(namespace, KFP_RUN_LABEL, (last.run_id,))
        stages = [pod for pod in found if not pod.ended]
        refusal = next((one.refusal for one in there if one.refusal), "")[: pods.LONGEST_PROBLEM]
        return "there" if there else "lost" if missed else "missing", stages, refusal

    async def _server_pods(
        self, resource: Resource, servers: Mapping[str, Servers]
    ) -> list[pods.Pod]:
        """The pods of environment servers, if some servers are not ready or not up to date."""
        if all(one.ready >= one.wanted and one.settled for one in servers.values()):
            return []
        found = await self._cluster.list_pods(resource.namespace, RUN_LABEL, (resource.name,))
        present = [pod for pod in found if pod.environment and not pod.ended]
        # A replaced one counts only while it does not end.
        return [pod for pod in present if pod.stuck or not pod.terminating]


def _is_due(kfp: KfpRun | Unknown | None, servers: Mapping[str, Servers]) -> bool:
    """Whether there is something to check: a KFP run works, or one waits for servers."""
    if kfp is None:
        return any(one.ready == 0 or not one.settled for one in servers.values())
    return isinstance(kfp, KfpRun) and kfp.alive


def _is_served(
    pod: pods.Pod, resource: Resource, servers: Mapping[str, Servers], *, started: bool
) -> bool:
    """Whether the environment of a server's pod has the servers that it needs: a phase that has
    `started` goes on with the ready ones, and one begins when none is to be replaced."""
    of_environment = servers.get(resource.child(pod.environment))
    if of_environment is None:
        return True
    return of_environment.ready > 0 and (started or of_environment.settled)
