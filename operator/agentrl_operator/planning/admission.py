"""Runs that Kueue admits as a whole: no work before the admission, and none after an eviction,
which does not count as a failure.

The quota is released only after the work has stopped and the environment servers are deleted.
"""

from __future__ import annotations

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.status import Status
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.workload_status import RunEvent
from agentrl_operator.planning import environments, stopping
from agentrl_operator.planning.actions import (
    Action,
    CreateWorkload,
    SetWorkloadPriority,
    UpdateWorkloadStatus,
)
from agentrl_operator.planning.observation import Unknown, may_have_workload
from agentrl_operator.planning.plan import (
    Plan,
    Situation,
    server_deletions,
    waiting_plan,
    with_clock_stopped,
    with_servers_scaled_down,
)

QUEUED_POLL_S = 120.0
"""Interval of reconciliations of a queued run, in case the watch on Workloads misses an event."""
PRIORITY_CLASS_POLL_S = 15.0
"""The same interval while the priority class does not exist, because the operator does not watch
priority classes."""


def queued_plan(situation: Situation, status: Status) -> Plan | None:
    """The plan while Kueue has not admitted the run. None: Kueue has admitted it, or it needs no
    admission."""
    if _may_work(situation, status):
        return None
    observation, now = situation.observation, situation.now
    seen = observation.workload
    detail = seen.message if seen is not None else "waiting for Kueue"
    remaining = stopping.remaining_work(situation, status)
    if remaining is not None:
        status = status.with_condition(Kind.ADMITTED, "False", Reason.EVICTED, detail, now)
        prefix = f"not admitted ({detail})"
        return stopping.remaining_work_plan(situation, status, remaining, prefix)
    reason, message, poll_s = Reason.QUEUED, f"in the queue: {detail}", QUEUED_POLL_S
    if isinstance(observation.priority, Unknown):
        detail, reason = observation.priority.message, Reason.NO_PRIORITY_CLASS
        message, poll_s = f"not in the queue: {detail}", PRIORITY_CLASS_POLL_S
    before = status
    status = (
        with_clock_stopped(with_servers_scaled_down(status, observation, now), now)
        .with_(attempt=stopping.next_attempt(observation), state="Pending")
        .with_condition(Kind.ADMITTED, "False", reason, detail, now)
    )
    actions = server_deletions(observation) or _queueing_actions(situation, status)
    poll_s = stopping.POLL_S if actions else poll_s
    return waiting_plan(
        status,
        "False",
        reason,
        message,
        now,
        actions=actions,
        status_on_failure=before,
        requeue_s=poll_s,
    )


def _may_work(situation: Situation, status: Status) -> bool:
    resource, seen = situation.resource, situation.observation.workload
    if not may_have_workload(resource, status, situation.platform):
        return True
    if seen is None:
        return resource.queue is None
    return seen.admitted and not _outdated(situation)


def _outdated(situation: Situation) -> bool:
    """Whether the Workload requests other resources than the run needs, or has finished."""
    run, seen = situation.resource.run, situation.observation.workload
    if run is None or seen is None:
        return False
    return seen.finished or not workload.is_current(seen, run)


def _queueing_actions(situation: Situation, status: Status) -> list[Action]:
    """Actions that put a run that does no work into Kueue's queue."""
    resource, observation = situation.resource, situation.observation
    seen = observation.workload
    if isinstance(observation.priority, Unknown) or _outdated(situation):
        return stopping.workload_deletion(situation, status)
    if seen is None:
        return [CreateWorkload(priority=observation.priority)] if resource.run is not None else []
    if seen.evicted and seen.reserved:
        return [
            *environments.possible_server_deletions(resource, status),
            UpdateWorkloadStatus(event="stopped", at=situation.now),
        ]
    return _priority_update(situation)


def _priority_update(situation: Situation) -> list[Action]:
    """The action that gives the Workload the priority class that the run names now. While quota
    is reserved, Kueue refuses to add a class to a Workload without one, or to remove it."""
    seen, priority = situation.observation.workload, situation.observation.priority
    wanted = situation.resource.priority_class
    if seen is None or seen.priority_class == wanted or isinstance(priority, Unknown):
        return []
    available = wanted == (priority.name if priority is not None else None)
    immutable = seen.reserved and None in (wanted, seen.priority_class)
    return [SetWorkloadPriority(priority=priority)] if available and not immutable else []


def workload_updates(situation: Situation, status: Status) -> tuple[list[Action], Status]:
    """Updates of the Workload of an admitted run, and `status` with the Admitted condition."""
    observation, now = situation.observation, situation.now
    seen = observation.workload
    if seen is None:
        if status.condition(Kind.ADMITTED) is not None:
            message = "the run names no queue"
            status = status.with_condition(Kind.ADMITTED, "True", Reason.NOT_QUEUED, message, now)
        return [], status
    detail = seen.message
    if isinstance(observation.priority, Unknown):
        detail = f"{detail}; {observation.priority.message}"
    status = status.with_condition(Kind.ADMITTED, "True", Reason.ADMITTED, detail, now)
    running = isinstance(observation.kfp, KfpRun) and observation.kfp.state == "RUNNING"
    report = running and not seen.started
    started = [UpdateWorkloadStatus(event="started", at=now)] if report else []
    return [*started, *_priority_update(situation)], status


def quota_release(situation: Situation, status: Status) -> list[Action]:
    """Actions that release the quota of a finished run."""
    seen = situation.observation.workload
    if seen is None or seen.finished:
        return []
    event: RunEvent = "succeeded" if status.state == "Succeeded" else "failed"
    return [
        *environments.possible_server_deletions(situation.resource, status),
        UpdateWorkloadStatus(event=event, at=situation.now),
    ]
