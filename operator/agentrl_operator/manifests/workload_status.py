"""What Kueue is told of a run, in the status of its Workload.

The lifecycle is the one that Kueue keeps with the jobs it knows: it sets Admitted, and may set
Evicted later. Who runs the job then stops it and takes QuotaReserved back, which frees the quota
and puts the Workload into the queue again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from agentrl_operator.api.conditions import rfc3339
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.environment_server import Manifest

News = Literal["started", "stopped", "succeeded", "failed"]
"""started: the run is at work. stopped: nothing of it is, after an eviction. Else: its end."""


def told(body: Mapping[str, Any], news: News, now: datetime) -> Manifest | None:
    """The merge patch of the status that tells Kueue. None: it knows, or it is no news any more.

    A merge replaces the whole list of conditions: the version makes the patch fail, to be tried
    again, where Kueue wrote meanwhile.
    """
    seen = workload.read(body)
    if news == "started":
        message = "the run is at work"
        fresh = [] if seen.started else [_made(body, "PodsReady", True, "Started", message, now)]
        change: Manifest = {}
    elif news == "stopped":
        evicted = seen.evicted and seen.reserved
        fresh = _given_back(body, now) if evicted else []
        change = {"admission": None, "accumulatedPastExecutionTimeSeconds": _used_s(body, now)}
    else:
        message = f"the run {news}"
        end = [_made(body, "Finished", True, news.capitalize(), message, now)]
        fresh, change = ([] if seen.finished else end), {}
    if not fresh:
        return None
    names = {one["type"] for one in fresh}
    kept = [
        one for one in workload.status(body).get("conditions") or () if one["type"] not in names
    ]
    version = {"resourceVersion": body["metadata"]["resourceVersion"]}
    return {"metadata": version, "status": change | {"conditions": kept + fresh}}


def _given_back(body: Mapping[str, Any], now: datetime) -> list[Manifest]:
    """What frees the quota. Whom Kueue evicted for others or for a broken node is in the queue
    again at once; the rest Kueue itself puts there, when their reason has passed."""
    eviction = workload.condition(body, "Evicted")
    reason, message = str(eviction["reason"]), str(eviction.get("message", ""))
    again = reason in ("Preempted", "NodeFailures")
    fresh = [
        _made(body, "Requeued", again, reason, message, now),
        _made(body, "QuotaReserved", False, "Pending", message, now),
    ]
    if workload.holds(body, "Admitted"):
        none = "The workload has no reservation"
        fresh.append(_made(body, "Admitted", False, "NoReservation", none, now))
    if workload.holds(body, "PodsReady"):
        fresh.append(_made(body, "PodsReady", False, "WaitForStart", "the run has stopped", now))
    return fresh


def _used_s(body: Mapping[str, Any], now: datetime) -> int | None:
    """Seconds that it was admitted, as Kueue adds them up."""
    before = workload.status(body).get("accumulatedPastExecutionTimeSeconds")
    since = workload.condition(body, "Admitted").get("lastTransitionTime")
    if since is None or not workload.holds(body, "Admitted"):
        return before
    return (before or 0) + max(0, int((now - datetime.fromisoformat(since)).total_seconds()))


def _made(
    body: Mapping[str, Any], kind: str, holds: bool, reason: str, message: str, now: datetime
) -> Manifest:
    before, status = workload.condition(body, kind), str(holds)
    same = before.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if same else rfc3339(now),
        "observedGeneration": body["metadata"].get("generation", 0),
    }
