"""Runs that Kueue admits as a whole: nothing of one starts before, and all of it stops after an
eviction, which counts as no failure.

The quota is given back when nothing works any more and the servers are removed, never before.
"""

from __future__ import annotations

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.workload_status import News
from agentrl_operator.planning import environments, stopping
from agentrl_operator.planning.actions import Action, Prioritize, RequestAdmission, TellKueue
from agentrl_operator.planning.observation import KfpRun, Unknown
from agentrl_operator.planning.plan import Plan, rested, scaled_down, waiting, without_servers
from agentrl_operator.planning.situation import Situation
from agentrl_pipelines.platform.config import Platform

LOOK_S = 120.0
"""Between two looks at a run in the queue. The watch is faster; it may fall silent."""
CLASS_LOOK_S = 15.0
"""Between two looks at a priority class that is not there: nobody watches those."""


def concerns(resource: Resource, status: Status, platform: Platform) -> bool:
    """Whether there may be a Workload of the run."""
    if platform.kueue.admission != "run":
        return False
    return resource.queue is not None or status.condition(Kind.ADMITTED) is not None


def awaited(situation: Situation, status: Status) -> Plan | None:
    """What to do while Kueue has not admitted the run. None: it has, or need not."""
    if _may_work(situation, status):
        return None
    observed, now = situation.observed, situation.now
    seen = observed.workload
    says = seen.says if seen is not None else "waiting for Kueue"
    working = stopping.left(situation, status)
    if working is not None:
        told = status.told(Kind.ADMITTED, "False", Reason.EVICTED, says, now)
        return stopping.patiently(situation, told, working, f"not admitted ({says})")
    reason, message, look_s = Reason.QUEUED, f"in the queue: {says}", LOOK_S
    if isinstance(observed.priority, Unknown):
        says, reason = observed.priority.why, Reason.NO_PRIORITY_CLASS
        message, look_s = f"not in the queue: {says}", CLASS_LOOK_S
    status = (
        rested(scaled_down(status, observed, now), now)
        .with_(attempt=stopping.next_attempt(observed), state="Pending")
        .told(Kind.ADMITTED, "False", reason, says, now)
    )
    actions = without_servers(observed) or _asking(situation)
    look_s = stopping.LOOK_S if actions else look_s
    return waiting(status, "False", reason, message, now, actions=actions, requeue_s=look_s)


def _may_work(situation: Situation, status: Status) -> bool:
    resource, seen = situation.resource, situation.observed.workload
    if not concerns(resource, status, situation.platform):
        return True
    if seen is None:
        return resource.queue is None
    return seen.admitted and not _stale(situation)


def _stale(situation: Situation) -> bool:
    """Whether the Workload asks for something else than the run needs, or is of an earlier end."""
    run, seen = situation.resource.run, situation.observed.workload
    if run is None or seen is None:
        return False
    return seen.finished or seen.fingerprint != workload.fingerprint(run)


def _asking(situation: Situation) -> list[Action]:
    """What brings the run into the queue. Nothing of it works."""
    resource, observed = situation.resource, situation.observed
    seen = observed.workload
    if isinstance(observed.priority, Unknown) or _stale(situation):
        return stopping.unqueued(situation)
    if seen is None:
        return [RequestAdmission(priority=observed.priority)] if resource.run is not None else []
    if seen.evicted and seen.reserved:
        return [*environments.removed(resource), TellKueue(news="stopped", at=situation.now)]
    return _prioritizing(situation)


def _prioritizing(situation: Situation) -> list[Action]:
    """What gives the Workload the priority of the class that the run names by now. One without a
    class gets none, nor does one lose it, while quota is reserved: Kueue refuses that."""
    seen, priority = situation.observed.workload, situation.observed.priority
    wanted = situation.resource.priority_class
    if seen is None or seen.priority_class == wanted or isinstance(priority, Unknown):
        return []
    known = wanted == (priority.name if priority is not None else None)
    fixed = seen.reserved and None in (wanted, seen.priority_class)
    return [Prioritize(priority=priority)] if known and not fixed else []


def granted(situation: Situation, status: Status) -> tuple[list[Action], Status]:
    """What to tell of the admission of a run that may work."""
    observed, now = situation.observed, situation.now
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
    return [*started, *_prioritizing(situation)], status


def closed(situation: Situation, status: Status) -> list[Action]:
    """Gives the quota back for good: the run is over."""
    seen = situation.observed.workload
    if seen is None or seen.finished:
        return []
    news: News = "succeeded" if status.state == "Succeeded" else "failed"
    return [*environments.removed(situation.resource), TellKueue(news=news, at=situation.now)]
