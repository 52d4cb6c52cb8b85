"""Runs that Kueue admits as a whole: nothing of one starts before, and all of it stops after an
eviction, which counts as no failure.

The quota is given back when nothing works any more and the servers are removed, never before.
"""

from __future__ import annotations

from datetime import datetime

from agentrl_operator import fleet, stopping, workload
from agentrl_operator.actions import Action, Prioritize, RequestAdmission, TellKueue
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.news import News
from agentrl_operator.observed import KfpRun, Observed, Unknown
from agentrl_operator.plan import Plan, rested, scaled_down, waiting, without_servers
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status
from agentrl_pipelines.platform import Platform

LOOK_S = 120.0
"""Between two looks at a run in the queue. The watch is faster; it may fall silent."""
CLASS_LOOK_S = 15.0
"""Between two looks at a priority class that is not there: nobody watches those."""


def concerns(resource: Resource, status: Status, platform: Platform) -> bool:
    """Whether there may be a Workload of the run."""
    if platform.kueue.admission != "run":
        return False
    queued = resource.run is not None and resource.run.spec.compute.queue is not None
    return queued or status.condition(Kind.ADMITTED) is not None


def awaited(
    resource: Resource, status: Status, observed: Observed, platform: Platform, now: datetime
) -> Plan | None:
    """What to do while Kueue has not admitted the run. None: it has, or need not."""
    if _may_work(resource, status, observed, platform):
        return None
    seen = observed.workload
    says = seen.says if seen is not None else "waiting for Kueue"
    working = stopping.left(resource, status, observed)
    if working is not None:
        told = status.told(Kind.ADMITTED, "False", Reason.EVICTED, says, now)
        return stopping.patiently(told, observed, working, f"not admitted ({says})", now)
    reason, message, look_s = Reason.QUEUED, f"in the queue: {says}", LOOK_S
    if isinstance(observed.priority, Unknown):
        says, reason = observed.priority.why, Reason.NO_PRIORITY_CLASS
        message, look_s = f"not in the queue: {says}", CLASS_LOOK_S
    # What was stopped is begun anew, with the next attempt.
    attempt = observed.attempt + (1 if stopping.was_stopped(observed) else 0)
    status = (
        rested(scaled_down(status, observed, now), now)
        .with_(attempt=attempt, phase="Pending")
        .told(Kind.ADMITTED, "False", reason, says, now)
    )
    actions = without_servers(observed) or _asking(resource, observed, now)
    look_s = stopping.LOOK_S if actions else look_s
    return waiting(status, "False", reason, message, now, actions=actions, requeue_s=look_s)


def _may_work(resource: Resource, status: Status, observed: Observed, platform: Platform) -> bool:
    run, seen = resource.run, observed.workload
    if not concerns(resource, status, platform):
        return True
    if seen is None:
        return run is None or run.spec.compute.queue is None
    return seen.admitted and not _stale(resource, observed)


def _stale(resource: Resource, observed: Observed) -> bool:
    """Whether the Workload asks for something else than the run needs, or is of an earlier end."""
    run, seen = resource.run, observed.workload
    if run is None or seen is None:
        return False
    return seen.finished or seen.fingerprint != workload.fingerprint(run)


def _asking(resource: Resource, observed: Observed, now: datetime) -> list[Action]:
    """What brings the run into the queue. Nothing of it works."""
    seen = observed.workload
    if isinstance(observed.priority, Unknown) or _stale(resource, observed):
        return stopping.unqueued(resource, observed)
    if seen is None:
        return [RequestAdmission(priority=observed.priority)] if resource.run is not None else []
    if seen.evicted and seen.reserved:
        return [*fleet.removed(resource), TellKueue(news="stopped", at=now)]
    return _prioritizing(resource, observed)


def _prioritizing(resource: Resource, observed: Observed) -> list[Action]:
    """What gives the Workload the priority of the class that the run names by now. One without a
    class gets none, nor does one lose it, while quota is reserved: Kueue refuses that."""
    seen, priority, wanted = observed.workload, observed.priority, resource.priority_class
    if seen is None or seen.priority_class == wanted or isinstance(priority, Unknown):
        return []
    known = wanted == (priority.name if priority is not None else None)
    fixed = seen.reserved and None in (wanted, seen.priority_class)
    return [Prioritize(priority=priority)] if known and not fixed else []


def granted(
    resource: Resource, status: Status, observed: Observed, now: datetime
) -> tuple[list[Action], Status]:
    """What to tell of the admission of a run that may work."""
    seen = observed.workload
    if seen is None:
        if status.condition(Kind.ADMITTED) is not None:
            message = "the run names no queue"
            status = status.told(Kind.ADMITTED, "True", Reason.NOT_QUEUED, message, now)
        return [], status
    says = seen.says
    if isinstance(observed.priority, Unknown):
        says = f"{says}; {observed.priority.why}"
    status = status.told(Kind.ADMITTED, "True", Reason.ADMITTED, says, now)
    at_work = isinstance(observed.kfp, KfpRun) and observed.kfp.state == "RUNNING"
    started = [TellKueue(news="started", at=now)] if at_work and not seen.started else []
    return [*started, *_prioritizing(resource, observed)], status


def closed(resource: Resource, status: Status, observed: Observed, now: datetime) -> list[Action]:
    """Gives the quota back for good: the run is over."""
    seen = observed.workload
    if seen is None or seen.finished:
        return []
    news: News = "succeeded" if status.phase == "Succeeded" else "failed"
    return [*fleet.removed(resource), TellKueue(news=news, at=now)]
