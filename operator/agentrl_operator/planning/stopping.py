"""Stopping work early: suspension, deadline, eviction and deletion.

Work has stopped when KFP reports the run as ended and no pod of it is left. Only then may another
attempt begin, or the finalizer be removed. A deletion stops waiting after a while.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.status import Status
from agentrl_operator.planning import environments
from agentrl_operator.planning.actions import (
    Action,
    DeleteKfpRuns,
    DeleteRunData,
    DeleteWorkflow,
    DeleteWorkload,
    FinishMlflowRun,
    RemoveFinalizer,
    ReportKeptData,
    TerminateKfpRun,
)
from agentrl_operator.planning.observation import Observation, Unknown
from agentrl_operator.planning.plan import (
    Plan,
    Situation,
    final_plan,
    ray_deletion,
    server_deletions,
    unwatched_are_left,
    waiting_plan,
    with_clock_stopped,
    with_servers_scaled_down,
)
from agentrl_pipelines.platform import resolve

POLL_S = 1.0
"""Interval of reconciliations while work is stopping."""
KFP_TIMEOUT_S = 15.0
"""A deletion waits this long for a KFP that does not answer, then deletes the Workflow itself."""
WORKFLOW_TIMEOUT_S = 45.0
"""It also does so if KFP answers but the work has not stopped after this long."""
PODS_TIMEOUT_S = 90.0
"""A deletion waits this long for pods to end, and tries this long to delete what the run owns."""
DATA_TIMEOUT_S = 600.0
"""A deletion tries this long to empty the store."""
UNREAD_POLL_S = 60.0
"""Interval of reconciliations of a run without work while Kubernetes refuses to show objects that
it may still own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingWork:
    """Work that has not stopped."""

    message: str
    actions: tuple[Action, ...] = ()
    """The actions that stop it."""


def remaining_work(situation: Situation, status: Status) -> RemainingWork | None:
    """The work that has not stopped yet. None: all work has stopped."""
    observation = situation.observation
    if isinstance(observation.kfp, Unknown):
        return RemainingWork(message=observation.kfp.message)
    alive = _alive_runs(situation, status)
    if alive:
        to_terminate = [run_id for run_id, one in alive.items() if one.state != "CANCELING"]
        runs = "the KFP run is" if len(alive) == 1 else f"{len(alive)} KFP runs are"
        return RemainingWork(
            message=f"{runs} being stopped",
            actions=tuple(TerminateKfpRun(run_id=run_id) for run_id in to_terminate),
        )
    if observation.pods_unread:
        return RemainingWork(message="Kubernetes does not show which pods have not ended")
    if observation.pods:
        detail = f"; {observation.stuck_pods}" if observation.stuck_pods else ""
        return RemainingWork(message=f"{observation.pods} pods have not ended{detail}")
    return None


def _alive_runs(situation: Situation, status: Status) -> dict[str, KfpRun]:
    """KFP runs whose pods may still run, by ID."""
    observation = situation.observation
    runs = dict(observation.others)
    if isinstance(observation.kfp, KfpRun) and not observation.workflow_lost:
        run_id = situation.resource.run_id(status.phase_index, observation.attempt)
        runs[run_id] = observation.kfp
    return {run_id: one for run_id, one in runs.items() if one.alive}


def suspension_plan(situation: Situation, status: Status) -> Plan:
    """Stop the work, remove the servers, release the quota, and keep everything stored."""
    observation, now = situation.observation, situation.now
    status = status.with_(attempt=max(status.attempt, observation.attempt))
    remaining = remaining_work(situation, status)
    if remaining is not None:
        status = status.with_condition(
            Kind.SUSPENDED, "False", Reason.SUSPENDING, "work is stopping", now
        )
        return remaining_work_plan(situation, status, remaining, "suspending")
    message = "suspended; set spec.suspend to false to go on from the last checkpoint"
    before = status
    status = (
        with_clock_stopped(status, now)
        .with_(state="Suspended", retry_time=None)
        .with_condition(Kind.SUSPENDED, "True", Reason.SUSPENDED, message, now)
    )
    if observation.workload is not None:
        status = status.with_condition(Kind.ADMITTED, "False", Reason.SUSPENDED, message, now)
    return waiting_plan(
        with_servers_scaled_down(status, observation, now),
        "False",
        Reason.SUSPENDED,
        message,
        now,
        actions=server_deletions(observation) or workload_deletion(situation, status),
        status_on_failure=before,
        requeue_s=look_again_s(observation) if situation.resource.suspend else 0.0,
    )


def deadline_plan(situation: Situation, status: Status, limit_s: int | None) -> Plan | None:
    """Stop the work, then end the run as failed. None: it has not worked for longer than its
    deadline, or its phase has succeeded."""
    if limit_s is None or status.active_for(situation.now) < limit_s:
        return None
    if situation.observation.phase_succeeded:
        return None
    remaining = remaining_work(situation, status)
    if remaining is not None:
        return remaining_work_plan(situation, status, remaining, "out of time")
    message = f"stopped after {limit_s} s of work, as activeDeadlineSeconds says"
    return final_plan(situation, status, "Failed", Reason.DEADLINE_EXCEEDED, message)


def deletion_plan(situation: Situation, status: Status) -> Plan:
    """Stop every KFP run of the run's experiment, clean up, remove the finalizer. A KFP that does
    not answer, pods that do not end and a store that does not answer delay this for a limited
    time, which begins when the operator first observes the deletion."""
    resource, observation, now = situation.resource, situation.observation, situation.now
    if not resource.has_finalizer or resource.deleted_at is None:
        return Plan(status=status, requeue_s=None)
    status = status.with_(attempt=max(status.attempt, observation.attempt))
    waited_s = observation.deleting_s
    remaining = remaining_work(situation, status)
    if remaining is None:
        return _cleanup_plan(situation, status, (), waited_s)
    actions = remaining.actions
    kfp_unknown = isinstance(observation.kfp, Unknown)
    late = waited_s >= (KFP_TIMEOUT_S if kfp_unknown else WORKFLOW_TIMEOUT_S)
    if late or observation.kfp is None:
        own, others = situation.run_id(status), _alive_runs(situation, status) if late else ()
        deletions = [DeleteWorkflow(run_id=one) for one in dict.fromkeys((own, *others))]
        actions = (*deletions, *(() if late else remaining.actions))
    no_pods = late and kfp_unknown and observation.pods == 0
    if no_pods or waited_s >= PODS_TIMEOUT_S:
        return _cleanup_plan(situation, status, actions, waited_s)
    message = f"deleting: {remaining.message}"
    return waiting_plan(
        status, "False", Reason.DELETING, message, now, actions=actions, requeue_s=POLL_S
    )


def _cleanup_plan(
    situation: Situation, status: Status, actions: tuple[Action, ...], waited_s: float
) -> Plan:
    run = situation.resource.run
    last = [*actions, *ray_deletion(situation.observation)]
    last += workload_deletion(situation, status)
    if status.mlflow_run is not None and not (status.finished or status.mlflow_finished):
        last.append(FinishMlflowRun(run_id=status.mlflow_run, status="KILLED"))
    needed: list[Action] = [RemoveFinalizer()]
    why_kept = _why_data_is_kept(situation, waited_s)
    if why_kept is not None:
        message = f"spec.storage.onDelete: the data is kept, as {why_kept}"
        last.append(ReportKeptData(message=message))
    elif run is not None and run.spec.storage.on_delete == "delete":
        last.append(DeleteKfpRuns())
        needed.insert(0, DeleteRunData())
        message = "deleting: the run's data is being deleted"
        status = status.with_progressing("False", Reason.DELETING, message, situation.now)
    if waited_s < PODS_TIMEOUT_S:
        return Plan(actions=(*last, *needed), status=status, requeue_s=POLL_S)
    # Kubernetes deletes what the run owns, so a call that still fails does not keep the run.
    return Plan(best_effort=tuple(last), actions=tuple(needed), status=status, requeue_s=POLL_S)


def _why_data_is_kept(situation: Situation, waited_s: float) -> str | None:
    """Why data is kept that the manifest wants deleted. None: it is not kept."""
    resource = situation.resource
    if resource.run is None:
        mistakes = "; ".join(resource.mistakes)
        return f"the manifest is not accepted: {mistakes}" if resource.stated.deletes_data else None
    if resource.run.spec.storage.on_delete != "delete" or waited_s < DATA_TIMEOUT_S:
        return None
    url = resolve.run_storage(resource.run, resource.uid, situation.platform).url
    return f"it could not be deleted within {DATA_TIMEOUT_S:g} s; delete what is left in {url}"


def remaining_work_plan(
    situation: Situation, status: Status, remaining: RemainingWork, prefix: str
) -> Plan:
    """Stop the remaining work and wait for it; `prefix` of the message says why."""
    kfp, now = situation.observation.kfp, situation.now
    if isinstance(kfp, Unknown):
        return waiting_plan(
            status, "Unknown", Reason.KFP_UNAVAILABLE, kfp.message, now, requeue_s=5 * POLL_S
        )
    return stopping_plan(situation, status, f"{prefix}: {remaining.message}", remaining.actions)


def stopping_plan(
    situation: Situation, status: Status, message: str, actions: tuple[Action, ...] = ()
) -> Plan:
    """Execute `actions` and reconcile again soon, because work is stopping."""
    return waiting_plan(
        status, "True", Reason.STOPPING, message, situation.now, actions=actions, requeue_s=POLL_S
    )


def workload_deletion(situation: Situation, status: Status) -> list[Action]:
    """Actions that release the quota of a run that does no work: all servers, then the
    Workload."""
    if situation.observation.workload is None:
        return []
    return [*environments.possible_server_deletions(situation.resource, status), DeleteWorkload()]


def look_again_s(observation: Observation) -> float | None:
    """Seconds after which a run without work is reconciled again, because it may still own objects
    that are not watched. None: it owns none."""
    if unwatched_are_left(observation):
        return POLL_S
    refused = (observation.ray_cluster, observation.nodes)
    unread = observation.sandboxes_unread or any(isinstance(one, Unknown) for one in refused)
    return UNREAD_POLL_S if unread else None


def next_attempt(observation: Observation) -> int:
    """The attempt that continues the phase after a stop: the observed one, or the one after it if
    that was stopped before its end. KFP reports one whose Workflow is gone as alive for ever."""
    kfp = observation.kfp
    alive = isinstance(kfp, KfpRun) and kfp.alive and not observation.workflow_lost
    stopped = isinstance(kfp, KfpRun) and not (alive or kfp.succeeded)
    return observation.attempt + (1 if stopped else 0)
