"""Work that stops before its end: suspended, out of time, or deleted.

Stopped means that KFP says so and that no pod of the run is left: only then may another attempt
begin, or the run be let go. Only a deletion gives up waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentrl_operator import fleet
from agentrl_operator.actions import (
    Action,
    CloseTracker,
    EraseStore,
    ForgetRuns,
    Release,
    RemoveWorkflow,
    RemoveWorkload,
    TerminateRun,
)
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.observed import KfpRun, Observed, Unknown
from agentrl_operator.plan import Plan, ended, rested, scaled_down, waiting, without_servers
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status

LOOK_S = 1.0
"""Between two looks at work that is about to stop."""
KFP_PATIENCE_S = 15.0
"""A deletion waits so long for a KFP that does not answer, then deletes the Workflow itself."""
WORKFLOW_PATIENCE_S = 45.0
"""It does so too where KFP answers and the work does not stop for so long."""
PODS_PATIENCE_S = 90.0
"""A deletion waits so long for pods to go."""
ERASE_PATIENCE_S = 600.0
"""A deletion tries so long to empty the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Work that has not stopped."""

    why: str
    actions: tuple[Action, ...] = ()
    """What stops it."""


def left(resource: Resource, status: Status, observed: Observed) -> Left | None:
    """What has not stopped yet. None: nothing works any more."""
    if isinstance(observed.kfp, Unknown):
        return Left(why=observed.kfp.why)
    alive = _alive(resource, status, observed)
    if alive:
        ask = [run_id for run_id, one in alive.items() if one.state != "CANCELING"]
        runs = "the KFP run is" if len(alive) == 1 else f"{len(alive)} KFP runs are"
        return Left(
            why=f"{runs} being stopped",
            actions=tuple(TerminateRun(run_id=run_id) for run_id in ask),
        )
    return Left(why=f"{observed.pods} pods have not ended") if observed.pods else None


def _alive(resource: Resource, status: Status, observed: Observed) -> dict[str, KfpRun]:
    """KFP runs that may still work, by id."""
    runs = dict(observed.others)
    if isinstance(observed.kfp, KfpRun) and observed.workflow != "lost":
        runs[resource.run_id(status.phase_index, observed.attempt)] = observed.kfp
    return {run_id: one for run_id, one in runs.items() if one.alive}


def suspended(resource: Resource, status: Status, observed: Observed, now: datetime) -> Plan:
    """Stop, keep what there is, and say so."""
    status = status.with_(attempt=max(status.attempt, observed.attempt))
    working = left(resource, status, observed)
    if working is not None:
        told = status.told(Kind.SUSPENDED, "False", Reason.SUSPENDING, "work is stopping", now)
        return patiently(told, observed, working, "suspending", now)
    message = "suspended; set spec.suspend to false to go on from the last checkpoint"
    status = (
        rested(status, now)
        .with_(phase="Suspended", retry_time=None)
        .told(Kind.SUSPENDED, "True", Reason.SUSPENDED, message, now)
    )
    removing: list[Action] = without_servers(observed)
    if observed.workload is not None:
        status = status.told(Kind.ADMITTED, "False", Reason.SUSPENDED, message, now)
    return waiting(
        scaled_down(status, observed, now),
        "False",
        Reason.SUSPENDED,
        message,
        now,
        actions=removing or unqueued(resource, observed),
        requeue_s=None if resource.suspend else 0.0,
    )


def out_of_time(
    resource: Resource, status: Status, observed: Observed, limit_s: int, now: datetime
) -> Plan:
    """Stop, then fail."""
    working = left(resource, status, observed)
    if working is not None:
        return patiently(status, observed, working, "out of time", now)
    message = f"stopped after {limit_s} s of work, as activeDeadlineSeconds says"
    return ended(status, observed, "Failed", Reason.DEADLINE_EXCEEDED, message, now)


def deleted(resource: Resource, status: Status, observed: Observed, now: datetime) -> Plan:
    """Stop whatever runs in the run's KFP experiment, clean up, let go. A KFP that is gone, pods
    that never end and a store that never answers hold a deletion up for a while, not for ever."""
    if not resource.held or resource.deleted_at is None:
        return Plan(status=status, requeue_s=None)
    status = status.with_(attempt=max(status.attempt, observed.attempt))
    waited_s = (now - resource.deleted_at).total_seconds()
    working = left(resource, status, observed)
    if working is None or waited_s >= PODS_PATIENCE_S:
        return _released(resource, status, observed, (), waited_s)
    actions = working.actions
    silent = isinstance(observed.kfp, Unknown)
    late = waited_s >= (KFP_PATIENCE_S if silent else WORKFLOW_PATIENCE_S)
    if late or observed.kfp is None:
        run_id = resource.run_id(status.phase_index, status.attempt)
        others = _alive(resource, status, observed) if late else ()
        removing = [RemoveWorkflow(run_id=one) for one in dict.fromkeys((run_id, *others))]
        actions = (*removing, *(() if late else working.actions))
        if silent and observed.pods == 0:
            return _released(resource, status, observed, actions, waited_s)
    why = f"deleting: {working.why}"
    return waiting(status, "False", Reason.DELETING, why, now, actions=actions, requeue_s=LOOK_S)


def _released(
    resource: Resource,
    status: Status,
    observed: Observed,
    actions: tuple[Action, ...],
    waited_s: float,
) -> Plan:
    last = [*actions, *unqueued(resource, observed)]
    if status.mlflow_run is not None and not status.finished:
        last.append(CloseTracker(run_id=status.mlflow_run, status="KILLED"))
    erase = resource.run is not None and resource.run.spec.storage.on_delete == "delete"
    if erase and waited_s < ERASE_PATIENCE_S:
        last += [ForgetRuns(), EraseStore()]
    return Plan(actions=(*last, Release()), status=status, requeue_s=LOOK_S)


def patiently(status: Status, observed: Observed, working: Left, why: str, now: datetime) -> Plan:
    """Ask for the stop, or wait for what is asked."""
    if isinstance(observed.kfp, Unknown):
        return waiting(
            status, "Unknown", Reason.KFP_UNAVAILABLE, observed.kfp.why, now, requeue_s=5 * LOOK_S
        )
    return waiting(
        status,
        "True",
        Reason.STOPPING,
        f"{why}: {working.why}",
        now,
        actions=working.actions,
        requeue_s=LOOK_S,
    )


def unqueued(resource: Resource, observed: Observed) -> list[Action]:
    """Kueue need not hold quota for what does not work."""
    if observed.workload is None:
        return []
    return [*fleet.removed(resource), RemoveWorkload()]


def was_stopped(observed: Observed) -> bool:
    """Whether the attempt that was suspended ended without doing its phase."""
    return isinstance(observed.kfp, KfpRun) and not (observed.kfp.alive or observed.kfp.succeeded)
