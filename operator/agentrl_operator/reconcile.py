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

from datetime import datetime

from agentrl_components.spec import AgentRLRun
from agentrl_components.state import State, Verdict
from agentrl_operator import acceptance, admission, failure, fleet, progress, stopping
from agentrl_operator.actions import Action, DeleteResource, Hold, OpenTracker, StartRun
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.observed import KfpRun, Observed, Unknown
from agentrl_operator.plan import Plan, ended, unavailable, waiting, without_servers
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status
from agentrl_pipelines.platform import Platform


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
        return unavailable(status, Reason.KFP_UNAVAILABLE, observed.kfp, platform, now)
    status = _resumed(status, observed, now)
    queued = admission.awaited(resource, status, observed, platform, now)
    if queued is not None and not done:
        return queued
    if run is None:
        return acceptance.refused(resource, status, now)
    if queued is not None:  # what is done stays done: on to the next phase, to wait there
        return _worked(resource, run, status, observed, platform, now)
    if isinstance(observed.nodes, Unknown):
        return unavailable(status, Reason.KUBERNETES_REFUSED, observed.nodes, platform, now)
    telling, status = admission.granted(resource, status, observed, now)
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
        return failure.backing_off(resource, run, status, platform, now)
    status = status.with_(attempt=observed.attempt)
    kfp = observed.kfp
    if not isinstance(kfp, KfpRun):
        return _started(resource, run, status, observed, platform, now)
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
        return _running(resource, run, status, observed, platform, now)
    if isinstance(observed.verdict, Unknown):
        return unavailable(status, Reason.STORE_UNAVAILABLE, observed.verdict, platform, now)
    if observed.verdict is not None and observed.verdict.action in ("advance", "finish", "stop"):
        return _followed(run, status, observed, observed.verdict, now)
    return failure.judged(resource, run, status, observed, kfp, platform, now)


def _running(
    resource: Resource,
    run: AgentRLRun,
    status: Status,
    observed: Observed,
    platform: Platform,
    now: datetime,
) -> Plan:
    if failure.for_good(observed):
        return failure.cut_short(resource, status, observed, now)
    doing = observed.standing.message if isinstance(observed.standing, State) else ""
    told = [progress.where(run, status), doing, observed.trouble]
    message = ": ".join(one for one in told if one)
    return waiting(status, "True", Reason.RUNNING, message, now, requeue_s=platform.poll_seconds)


def _started(
    resource: Resource,
    run: AgentRLRun,
    status: Status,
    observed: Observed,
    platform: Platform,
    now: datetime,
) -> Plan:
    """Begin an attempt, once its time has come."""
    if status.retry_time is not None and now < status.retry_time:
        return failure.backing_off(resource, run, status, platform, now)
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
        nodes={} if isinstance(observed.nodes, Unknown) else observed.nodes,
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
