"""Patches of a Workload's status, by which the operator reports the progress of a run to Kueue.

Kueue treats the run as it treats the jobs that it has integrations for: Kueue sets Admitted and may
set Evicted later. The operator then stops the run and sets QuotaReserved to False, which releases
the quota and puts the Workload back into the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from agentrl_operator.api.conditions import rfc3339
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.metadata import Manifest

RunEvent = Literal["started", "stopped", "succeeded", "failed"]
"""started: the run is working. stopped: nothing of it works any more after an eviction. Else how
the run ended."""


def status_patch(body: Mapping[str, Any], event: RunEvent, now: datetime) -> Manifest | None:
    """The merge patch of the status that reports `event`. None: the status says so already, or the
    event is out of date.

    A merge patch replaces the whole list of conditions. It names the resourceVersion, so it fails,
    and is tried again, if Kueue wrote in the meantime.
    """
    seen = workload.read(body)
    change: Manifest = {}
    new: list[Manifest] = []
    if event == "started":
        if not seen.started:
            new = [_condition(body, "PodsReady", True, "Started", "the run is working", now)]
    elif event == "stopped":
        if seen.evicted and seen.reserved:
            new = _released_quota(body, now)
        change = {"admission": None, "accumulatedPastExecutionTimeSeconds": _admitted_s(body, now)}
    elif not seen.finished:
        reason, message = event.capitalize(), f"the run {event}"
        new = [_condition(body, "Finished", True, reason, message, now)]
    if not new:
        return None
    types = {one["type"] for one in new}
    conditions = workload.status(body).get("conditions") or ()
    kept = [one for one in conditions if one["type"] not in types]
    version = {"resourceVersion": body["metadata"]["resourceVersion"]}
    return {"metadata": version, "status": change | {"conditions": kept + new}}


def _released_quota(body: Mapping[str, Any], now: datetime) -> list[Manifest]:
    """The conditions that release the quota. A run that was preempted or lost a node goes back into
    the queue at once; in other cases Kueue requeues it when the cause of the eviction is gone."""
    eviction = workload.condition(body, "Evicted")
    reason, message = str(eviction["reason"]), str(eviction.get("message", ""))
    requeue = reason in ("Preempted", "NodeFailures")
    new = [
        _condition(body, "Requeued", requeue, reason, message, now),
        _condition(body, "QuotaReserved", False, "Pending", message, now),
    ]
    if workload.is_true(body, "Admitted"):
        none = "The workload has no reservation"
        new.append(_condition(body, "Admitted", False, "NoReservation", none, now))
    if workload.is_true(body, "PodsReady"):
        stopped = "the run has stopped"
        new.append(_condition(body, "PodsReady", False, "WaitForStart", stopped, now))
    return new


def _admitted_s(body: Mapping[str, Any], now: datetime) -> int | None:
    """Seconds for which the Workload has been admitted so far, summed as Kueue sums them."""
    before = workload.status(body).get("accumulatedPastExecutionTimeSeconds")
    since = workload.condition(body, "Admitted").get("lastTransitionTime")
    if since is None or not workload.is_true(body, "Admitted"):
        return before
    return (before or 0) + max(0, int((now - datetime.fromisoformat(since)).total_seconds()))


def _condition(
    body: Mapping[str, Any], kind: str, holds: bool, reason: str, message: str, now: datetime
) -> Manifest:
    before, status = workload.condition(body, kind), str(holds)
    unchanged = before.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": before["lastTransitionTime"] if unchanged else rfc3339(now),
        "observedGeneration": body["metadata"].get("generation", 0),
    }
