"""The input and the output of `reconcile`, and the plans that several modules make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agentrl_operator.api.conditions import Kind, Reason, Truth
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.planning.actions import (
    Action,
    DeleteDeployment,
    DeleteRayCluster,
    DeleteSandboxes,
    FinishMlflowRun,
)
from agentrl_operator.planning.observation import Observation, RayCluster, Unknown
from agentrl_pipelines.platform.config import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The input of `reconcile` that stays constant while it decides; the status is passed
    separately, because each step of the decision changes it."""

    resource: Resource
    observation: Observation
    platform: Platform
    now: datetime

    def run_id(self, status: Status) -> str:
        """The KFP run ID of the attempt that `status` names."""
        return self.resource.run_id(status.phase_index, status.attempt)

    @property
    def is_working(self) -> bool:
        """Whether a phase works. It may also be if KFP does not answer."""
        kfp = self.observation.kfp
        return isinstance(kfp, Unknown) or (isinstance(kfp, KfpRun) and kfp.alive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The output of `reconcile`."""

    best_effort: tuple[Action, ...] = ()
    """Executed first, in order. If one fails, the rest is executed nevertheless."""
    actions: tuple[Action, ...] = ()
    """Executed in order. If one fails, the rest is not executed."""
    status: Status
    """The status after all actions succeeded."""
    status_on_failure: Status | None = None
    """The status if an action failed. None: `status`, because it records only what was observed
    and what is about to be done. A status that records a result of the actions needs another one
    here: otherwise the failed action would never be repeated."""
    requeue_s: float | None
    """Seconds until the run is reconciled again. None: at the next event."""
    is_due: bool = False
    """Whether something is due after `requeue_s`. Otherwise it is the interval of a poll, which is
    longer if many runs poll."""


def waiting_plan(
    status: Status,
    truth: Truth,
    reason: Reason,
    message: str,
    now: datetime,
    *,
    requeue_s: float | None,
    is_due: bool = False,
    actions: Iterable[Action] = (),
    status_on_failure: Status | None = None,
) -> Plan:
    """A plan whose Progressing condition says what the run is waiting for."""
    status = status.with_progressing(truth, reason, message, now)
    return Plan(
        actions=tuple(actions),
        status=status,
        status_on_failure=status_on_failure,
        requeue_s=requeue_s,
        is_due=is_due,
    )


def unavailable_plan(
    situation: Situation, status: Status, reason: Reason, unknown: Unknown
) -> Plan:
    """A plan that only retries: no decision is possible without the dependency's answer."""
    retry_s = max(situation.platform.poll_seconds, 5.0)
    return waiting_plan(
        status, "Unknown", reason, unknown.message, situation.now, requeue_s=retry_s
    )


def final_plan(
    situation: Situation,
    status: Status,
    outcome: Literal["Succeeded", "Failed"],
    reason: Reason,
    message: str,
    actions: Iterable[Action] = (),
) -> Plan:
    """A plan that ends the run: sets the terminal conditions, removes the environment servers and
    finishes the MLflow run."""
    observation, now, before = situation.observation, situation.now, status
    succeeded = outcome == "Succeeded"
    kind, other = (Kind.SUCCEEDED, Kind.FAILED) if succeeded else (Kind.FAILED, Kind.SUCCEEDED)
    status = (
        with_clock_stopped(status, now)
        .with_(state=outcome, completion_time=now, retry_time=None)
        .with_condition(kind, "True", reason, message, now)
        .with_condition(other, "False", Reason.ENDED, f"the run {outcome.lower()}", now)
        .with_progressing("False", reason, message, now)
    )
    last: list[Action] = [*actions, *server_deletions(observation)]
    if status.mlflow_run is not None:
        last.append(
            FinishMlflowRun(run_id=status.mlflow_run, status="FINISHED" if succeeded else "FAILED")
        )
    status = with_servers_scaled_down(status, observation, now)
    return Plan(actions=tuple(last), status=status, status_on_failure=before, requeue_s=0.0)


def with_clock_stopped(status: Status, now: datetime) -> Status:
    """`status` with the active time so far added up and no longer counting."""
    return status.with_(active_seconds=int(status.active_for(now)), active_time=None)


def server_deletions(observation: Observation) -> list[Action]:
    """Actions that delete every observed environment server, and the Ray cluster."""
    servers = sorted(observation.servers.items())
    deployments = [DeleteDeployment(deployment=n) for n, one in servers if not one.sandboxed]
    sandboxes = [DeleteSandboxes()] if any(one.sandboxed for _, one in servers) else []
    return [*deployments, *sandboxes, *ray_deletion(observation)]


def unwatched_are_left(observation: Observation) -> bool:
    """Whether `server_deletions` deletes objects that are not watched, so that the run must be
    reconciled again to see that they are gone."""
    sandboxes = any(one.sandboxed for one in observation.servers.values())
    return sandboxes or bool(ray_deletion(observation))


def ray_deletion(observation: Observation) -> list[Action]:
    """The action that deletes the Ray cluster, if it is observed."""
    return [DeleteRayCluster()] if isinstance(observation.ray_cluster, RayCluster) else []


def with_servers_scaled_down(status: Status, observation: Observation, now: datetime) -> Status:
    """`status` with the conditions EnvironmentsReady and RayClusterReady as they are after
    `server_deletions`."""
    if isinstance(observation.ray_cluster, RayCluster):
        problem = observation.ray_cluster.problem if observation.ray_cluster.deleting else ""
        message = "the Ray cluster is removed while no phase can start"
        message = f"{message}; {problem}" if problem else message
        status = status.with_condition(
            Kind.RAY_CLUSTER_READY, "False", Reason.SCALED_DOWN, message, now
        )
    elif observation.ray_cluster is None:
        status = status.with_(ray=None)
    if not observation.servers:
        return status
    message = "environment servers are removed while no episodes are collected"
    return status.with_condition(Kind.ENVIRONMENTS_READY, "False", Reason.SCALED_DOWN, message, now)
