"""What to do about a run: a pure function of its manifest, its status and what is seen.

    reconcile(resource, status, observed, platform, now) -> Plan

The same question gets the same answer, and asking again after the plan is done asks for nothing
new. Nothing depends on which event came first or on what the operator did before: only the status
remembers, and a status that is lost is found again by walking through the phases' KFP runs and
decisions.

One phase is one KFP run at a time. An attempt at a phase begins when KFP and Kubernetes say that
nothing of the one before is left.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from agentrl_components.spec import AgentRLRun
from agentrl_components.state import State, Verdict
from agentrl_operator import acceptance, admission, fleet, progress, stopping
from agentrl_operator.actions import (
    Action,
    DeleteResource,
    Hold,
    OpenTracker,
    StartRun,
    TerminateRun,
)
from agentrl_operator.conditions import Kind, Reason, rfc3339, stage_reason
from agentrl_operator.observed import KfpRun, Observed, Unknown
from agentrl_operator.plan import Plan, ended, waiting, without_servers
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status
from agentrl_pipelines.platform import Platform

FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 300.0


def reconcile(
    resource: Resource, status: Status, observed: Observed, platform: Platform, now: datetime
) -> Plan:
    """What to do now, and what to say of the run."""
    status = status.with_(observed_generation=resource.generation)
    if resource.deleted_at is not None:
        return stopping.deleted(resource, status, observed, now)
    status = acceptance.checked(resource, status, now)
    if status.finished:
        return _afterwards(resource, status, observed, now)
    held: tuple[Action, ...] = () if resource.held else (Hold(),)
    plan = _decided(resource, status, observed, platform, now)
    return Plan(actions=held + plan.actions, status=plan.status, requeue_s=plan.requeue_s)


def _decided(
    resource: Resource, status: Status, observed: Observed, platform: Platform, now: datetime
) -> Plan:
    run = resource.run
    if run is not None:
        status = progress.shown(resource, run, status, observed, platform)
    done = run is not None and isinstance(observed.kfp, KfpRun) and observed.kfp.succeeded
    if resource.suspend or status.says(Kind.SUSPENDED, "False", Reason.SUSPENDING):
        if run is not None and done:  # a status that was lost: work may be further on
            return _worked(resource, run, status, observed, platform, now)
        return stopping.suspended(resource, status, observed, now)
    if isinstance(observed.kfp, Unknown):
        return _unavailable(status, Reason.KFP_UNAVAILABLE, observed.kfp, platform, now)
    status = _resumed(status, observed, now)
    queued = admission.awaited(resource, status, observed, platform, now)
    if queued is not None and not done:
        return queued
    if run is None:
        return acceptance.refused(resource, status, now)
    if queued is not None:  # what is done stays done: on to the next phase, to wait there
        return _worked(resource, run, status, observed, platform, now)
    telling, status = admission.granted(status, observed, now)
    serving, status = fleet.served(resource, run, status, observed, platform, now)
    limit_s = run.spec.active_deadline_seconds
    over = limit_s is not None and status.active_for(now) >= limit_s
    if limit_s is not None and over and not done:
        return stopping.out_of_time(resource, status, observed, limit_s, now)
    plan = _worked(resource, run, status, observed, platform, now)
    if plan.status.finished:
        return plan
    if any(isinstance(one, StartRun) for one in plan.actions):
        serving = fleet.renewed(run, observed)
    actions = (*telling, *serving, *plan.actions)
    return Plan(actions=actions, status=plan.status, requeue_s=plan.requeue_s)


def _resumed(status: Status, observed: Observed, now: datetime) -> Status:
    """After a suspension the phase is begun anew, which counts as no failure."""
    if status.says(Kind.SUSPENDED, "True"):
        attempt = observed.attempt + (1 if stopping.was_stopped(observed) else 0)
        status = status.with_(
            attempt=attempt,
            phase="Pending" if status.start_time is None else "Running",
            active_time=None if status.start_time is None else now,
        )
    return status.told(
        Kind.SUSPENDED, "False", Reason.NOT_SUSPENDED, "the run is not suspended", now
    )


def _worked(
    resource: Resource,
    run: AgentRLRun,
    status: Status,
    observed: Observed,
    platform: Platform,
    now: datetime,
) -> Plan:
    """A step of the loop over phases."""
    if status.attempt > observed.attempt:
        return _backing_off(resource, run, status, platform, now)
    status = status.with_(attempt=observed.attempt)
    kfp = observed.kfp
    if not isinstance(kfp, KfpRun):
        return _started(resource, run, status, platform, now)
    run_id = resource.run_id(status.phase_index, status.attempt)
    status = status.with_(
        kfp_run=run_id,
        kfp_url=progress.kfp_url(run_id, platform),
        start_time=status.start_time or now,
        active_time=status.active_time or now,
        phase="Running",
        retry_time=None,
    )
    if kfp.alive and observed.workflow != "lost":
        return _running(run, status, observed, platform, now)
    if isinstance(observed.verdict, Unknown):
        return _unavailable(status, Reason.STORE_UNAVAILABLE, observed.verdict, platform, now)
    if observed.verdict is not None and observed.verdict.action in ("advance", "finish", "stop"):
        return _followed(run, status, observed, observed.verdict, now)
    return _failed(resource, run, status, observed, kfp, platform, now)


def _running(
    run: AgentRLRun, status: Status, observed: Observed, platform: Platform, now: datetime
) -> Plan:
    doing = observed.standing.message if isinstance(observed.standing, State) else ""
    message = progress.where(run, status) + (f": {doing}" if doing else "")
    return waiting(status, "True", Reason.RUNNING, message, now, requeue_s=platform.poll_seconds)


def _started(
    resource: Resource, run: AgentRLRun, status: Status, platform: Platform, now: datetime
) -> Plan:
    """Begin an attempt, once its time has come."""
    if status.retry_time is not None and now < status.retry_time:
        return _backing_off(resource, run, status, platform, now)
    run_id = resource.run_id(status.phase_index, status.attempt)
    status = status.with_(
        kfp_run=run_id,
        kfp_url=progress.kfp_url(run_id, platform),
        start_time=status.start_time or now,
        active_time=status.active_time or now,
    )
    actions: list[Action] = []
    if status.phase_index == 0 and status.attempt == 0 and status.mlflow_run is None:
        actions.append(OpenTracker())
    start = StartRun(
        run_id=run_id,
        phase=status.phase_index,
        attempt=status.attempt,
        first=not resource.held,
    )
    actions.append(start)
    message = f"submitting {progress.where(run, status)}"
    return waiting(
        status,
        "True",
        Reason.SUBMITTING,
        message,
        now,
        actions=actions,
        requeue_s=platform.poll_seconds,
    )


def _backing_off(
    resource: Resource, run: AgentRLRun, status: Status, platform: Platform, now: datetime
) -> Plan:
    """Wait for the time of the next attempt."""
    left = (status.retry_time - now).total_seconds() if status.retry_time is not None else 0.0
    if left <= 0:
        return Plan(status=status, requeue_s=0.0)
    message = f"{progress.where(run, status)} begins at {rfc3339(now + timedelta(seconds=left))}"
    return waiting(status, "True", Reason.BACKING_OFF, message, now, requeue_s=left)


def _followed(
    run: AgentRLRun, status: Status, observed: Observed, verdict: Verdict, now: datetime
) -> Plan:
    """Do as the phase's decision says."""
    last = len(run.spec.horizon.phases) - 1
    if verdict.action == "stop":
        return ended(
            status, observed, "Failed", Reason.COLLAPSE_ERROR, verdict.reason or "stopped", now
        )
    if verdict.action == "finish" or status.phase_index >= last:
        message = verdict.reason or "the schedule is done"
        return ended(status, observed, "Succeeded", Reason.SCHEDULE_DONE, message, now)
    following = min(max(verdict.phase, status.phase_index + 1), last)
    status = status.with_(
        phase_index=following,
        attempt=0,
        failures=0,
        retry_time=None,
        horizon=run.spec.horizon.phases[following].max_turns,
        kfp_run=None,
        kfp_url=None,
    )
    message = verdict.reason or f"on to {progress.where(run, status)}"
    return waiting(status, "True", Reason.SUBMITTING, message, now, requeue_s=0.0)


def _failed(
    resource: Resource,
    run: AgentRLRun,
    status: Status,
    observed: Observed,
    kfp: KfpRun,
    platform: Platform,
    now: datetime,
) -> Plan:
    """An attempt came to nothing: try again, unless that would fail alike or was tried enough."""
    standing = observed.standing
    if isinstance(standing, Unknown):
        return _unavailable(status, Reason.STORE_UNAVAILABLE, standing, platform, now)
    why, reason = _cause(standing, observed, kfp)
    if observed.pods:
        message = f"{why}; waiting for {observed.pods} pods to end"
        return waiting(status, "True", Reason.STOPPING, message, now, requeue_s=stopping.LOOK_S)
    run_id = resource.run_id(status.phase_index, status.attempt)
    lost = observed.workflow == "lost" and kfp.alive
    actions: tuple[Action, ...] = (TerminateRun(run_id=run_id),) if lost else ()
    if standing is not None and standing.status == "failed" and standing.final:
        return ended(status, observed, "Failed", reason, why, now, actions)
    failures = status.failures + 1
    if failures > run.spec.backoff_limit:
        message = f"{failures} attempts at {progress.where(run, status)} failed, the last: {why}"
        return ended(
            status, observed, "Failed", Reason.BACKOFF_LIMIT_EXCEEDED, message, now, actions
        )
    delay_s = min(FIRST_BACKOFF_S * 2 ** (failures - 1), LONGEST_BACKOFF_S)
    status = status.with_(
        attempt=status.attempt + 1,
        failures=failures,
        retry_time=now + timedelta(seconds=delay_s),
    )
    return waiting(
        status,
        "True",
        Reason.BACKING_OFF,
        f"{why}; trying again in {delay_s:.0f} s",
        now,
        actions=actions,
        requeue_s=delay_s,
    )


def _cause(standing: State | None, observed: Observed, kfp: KfpRun) -> tuple[str, Reason]:
    """Why an attempt failed: as its stages say, else as KFP says."""
    if standing is not None and standing.status == "failed":
        name = f"{standing.reason}: " if standing.reason else ""
        return f"{name}{standing.message}", stage_reason(standing.reason)
    if kfp.alive and observed.workflow == "lost":
        return "the Workflow of the KFP run is gone", Reason.WORKFLOW_LOST
    if kfp.succeeded:
        return "the KFP run succeeded but decided nothing", Reason.STAGE_FAILED
    return f"the KFP run ended {kfp.state}{': ' if kfp.error else ''}{kfp.error}", (
        Reason.STAGE_FAILED
    )


def _unavailable(
    status: Status, reason: Reason, unknown: Unknown, platform: Platform, now: datetime
) -> Plan:
    return waiting(
        status, "Unknown", reason, unknown.why, now, requeue_s=max(platform.poll_seconds, 5.0)
    )


def _afterwards(resource: Resource, status: Status, observed: Observed, now: datetime) -> Plan:
    """The run is over: nothing is left running, and at its time it goes."""
    actions = without_servers(observed) or admission.closed(resource, status, observed, now)
    ttl_s = resource.run.spec.ttl_seconds_after_finished if resource.run is not None else None
    if ttl_s is None or status.completion_time is None:
        return Plan(actions=tuple(actions), status=status, requeue_s=None)
    left_s = ttl_s - (now - status.completion_time).total_seconds()
    if left_s <= 0:
        actions.append(DeleteResource())
        return Plan(actions=tuple(actions), status=status, requeue_s=None)
    return Plan(actions=tuple(actions), status=status, requeue_s=left_s)
