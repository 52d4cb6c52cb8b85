"""Work that stops before its end: suspended, out of time, or deleted.

Stopped means that KFP says so and that no pod of the run is left: only then may another attempt
begin, or the run be let go. Only a deletion gives up waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.status import Status
from agentrl_operator.planning import environments
from agentrl_operator.planning.actions import (
    Action,
    CloseTracker,
    EraseStore,
    ForgetRuns,
    Release,
    RemoveWorkflow,
    RemoveWorkload,
    TerminateRun,
)
from agentrl_operator.planning.observation import KfpRun, Observed, Unknown
from agentrl_operator.planning.plan import (
    Plan,
    ended,
    rested,
    scaled_down,
    waiting,
    without_servers,
)
from agentrl_operator.planning.situation import Situation

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


def left(situation: Situation, status: Status) -> Left | None:
    """What has not stopped yet. None: nothing works any more."""
    observed = situation.observed
    if isinstance(observed.kfp, Unknown):
        return Left(why=observed.kfp.why)
    alive = _alive(situation, status)
    if alive:
        ask = [run_id for run_id, one in alive.items() if one.state != "CANCELING"]
        runs = "the KFP run is" if len(alive) == 1 else f"{len(alive)} KFP runs are"
        return Left(
            why=f"{runs} being stopped",
            actions=tuple(TerminateRun(run_id=run_id) for run_id in ask),
        )
    return Left(why=f"{observed.pods} pods have not ended") if observed.pods else None


def _alive(situation: Situation, status: Status) -> dict[str, KfpRun]:
    """KFP runs that may still work, by id."""
    observed = situation.observed
    runs = dict(observed.others)
    if isinstance(observed.kfp, KfpRun) and not observed.lost:
        runs[situation.resource.run_id(status.phase_index, observed.attempt)] = observed.kfp
    return {run_id: one for run_id, one in runs.items() if one.alive}


def suspended(situation: Situation, status: Status) -> Plan:
    """Stop, keep what there is, and say so."""
    observed, now = situation.observed, situation.now
    status = status.with_(attempt=max(status.attempt, observed.attempt))
    working = left(situation, status)
    if working is not None:
        told = status.told(Kind.SUSPENDED, "False", Reason.SUSPENDING, "work is stopping", now)
        return patiently(situation, told, working, "suspending")
    message = "suspended; set spec.suspend to false to go on from the last checkpoint"
    status = (
        rested(status, now)
        .with_(state="Suspended", retry_time=None)
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
        actions=removing or unqueued(situation),
        requeue_s=None if situation.resource.suspend else 0.0,
    )


def out_of_time(situation: Situation, status: Status, limit_s: int) -> Plan:
    """Stop, then fail."""
    working = left(situation, status)
    if working is not None:
        return patiently(situation, status, working, "out of time")
    message = f"stopped after {limit_s} s of work, as activeDeadlineSeconds says"
    return ended(situation, status, "Failed", Reason.DEADLINE_EXCEEDED, message)


def deleted(situation: Situation, status: Status) -> Plan:
    """Stop whatever runs in the run's KFP experiment, clean up, let go. A KFP that is gone, pods
    that never end and a store that never answers hold a deletion up for a while, not for ever."""
    resource, observed, now = situation.resource, situation.observed, situation.now
    if not resource.held or resource.deleted_at is None:
        return Plan(status=status, requeue_s=None)
    status = status.with_(attempt=max(status.attempt, observed.attempt))
    waited_s = (now - resource.deleted_at).total_seconds()
    working = left(situation, status)
    if working is None or waited_s >= PODS_PATIENCE_S:
        return _released(situation, status, (), waited_s)
    actions = working.actions
    silent = isinstance(observed.kfp, Unknown)
    late = waited_s >= (KFP_PATIENCE_S if silent else WORKFLOW_PATIENCE_S)
    if late or observed.kfp is None:
        own, others = situation.run_id(status), _alive(situation, status) if late else ()
        removing = [RemoveWorkflow(run_id=one) for one in dict.fromkeys((own, *others))]
        actions = (*removing, *(() if late else working.actions))
        if silent and observed.pods == 0:
            return _released(situation, status, actions, waited_s)
    why = f"deleting: {working.why}"
    return waiting(status, "False", Reason.DELETING, why, now, actions=actions, requeue_s=LOOK_S)


def _released(
    situation: Situation, status: Status, actions: tuple[Action, ...], waited_s: float
) -> Plan:
    run = situation.resource.run
    last = [*actions, *unqueued(situation)]
    if status.mlflow_run is not None and not status.finished:
        last.append(CloseTracker(run_id=status.mlflow_run, status="KILLED"))
    erase = run is not None and run.spec.storage.on_delete == "delete"
    if erase and waited_s < ERASE_PATIENCE_S:
        last += [ForgetRuns(), EraseStore()]
    return Plan(actions=(*last, Release()), status=status, requeue_s=LOOK_S)


def patiently(situation: Situation, status: Status, working: Left, why: str) -> Plan:
    """Ask for the stop, or wait for what is asked."""
    kfp, now = situation.observed.kfp, situation.now
    if isinstance(kfp, Unknown):
        return waiting(
            status, "Unknown", Reason.KFP_UNAVAILABLE, kfp.why, now, requeue_s=5 * LOOK_S
        )
    return awaited(situation, status, f"{why}: {working.why}", working.actions)


def awaited(
    situation: Situation, status: Status, message: str, actions: tuple[Action, ...] = ()
) -> Plan:
    """Look again soon: something is about to stop."""
    now = situation.now
    return waiting(status, "True", Reason.STOPPING, message, now, actions=actions, requeue_s=LOOK_S)


def unqueued(situation: Situation) -> list[Action]:
    """Kueue need not hold quota for what does not work."""
    if situation.observed.workload is None:
        return []
    return [*environments.removed(situation.resource), RemoveWorkload()]


def next_attempt(observed: Observed) -> int:
    """With which work goes on: what was stopped before its end is begun anew."""
    kfp = observed.kfp
    stopped = isinstance(kfp, KfpRun) and not (kfp.alive or kfp.succeeded)
    return observed.attempt + (1 if stopped else 0)
