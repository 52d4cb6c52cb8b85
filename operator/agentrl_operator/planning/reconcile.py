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

from dataclasses import replace
from datetime import datetime

from agentrl_components.spec import AgentRLRun
from agentrl_components.storage.records import State, Verdict
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.planning import (
    acceptance,
    admission,
    environments,
    progress,
    retries,
    stopping,
)
from agentrl_operator.planning.actions import Action, DeleteResource, Hold, OpenTracker, StartRun
from agentrl_operator.planning.observation import KfpRun, Observed, Unknown
from agentrl_operator.planning.plan import Plan, ended, unavailable, waiting, without_servers
from agentrl_operator.planning.situation import Situation
from agentrl_pipelines.platform.config import Platform


def reconcile(
    resource: Resource, status: Status, observed: Observed, platform: Platform, now: datetime
) -> Plan:
    """What to do now, and what to say of the run."""
    situation = Situation(resource=resource, observed=observed, platform=platform, now=now)
    status = status.with_(observed_generation=resource.generation)
    if resource.deleted_at is not None:
        return stopping.deleted(situation, status)
    status = acceptance.checked(situation, status)
    if status.finished:
        return _afterwards(situation, status)
    held: tuple[Action, ...] = () if resource.held else (Hold(),)
    plan = _decided(situation, status)
    return replace(plan, actions=(*held, *plan.actions))


def _decided(situation: Situation, status: Status) -> Plan:
    run, observed = situation.resource.run, situation.observed
    if run is not None:
        status = progress.shown(situation, run, status)
    if situation.resource.suspend or status.says(Kind.SUSPENDED, "False", Reason.SUSPENDING):
        if run is not None and observed.done:  # a status that was lost: work may be further on
            return _worked(situation, run, status)
        return stopping.suspended(situation, status)
    if isinstance(observed.kfp, Unknown):
        return unavailable(situation, status, Reason.KFP_UNAVAILABLE, observed.kfp)
    status = _resumed(situation, status)
    queued = admission.awaited(situation, status)
    if queued is not None:  # what is done stays done: on to the next phase, to wait there
        return _worked(situation, run, status) if run is not None and observed.done else queued
    if run is None:
        return acceptance.refused(situation, status)
    if isinstance(observed.nodes, Unknown):
        return unavailable(situation, status, Reason.KUBERNETES_REFUSED, observed.nodes)
    telling, status = admission.granted(situation, status)
    serving, status = environments.served(situation, run, status)
    limit_s = run.spec.active_deadline_seconds
    if limit_s is not None and status.active_for(situation.now) >= limit_s and not observed.done:
        return stopping.out_of_time(situation, status, limit_s)
    plan = _worked(situation, run, status)
    if plan.status.finished:
        return plan
    if any(isinstance(one, StartRun) for one in plan.actions):
        serving = environments.renewed(run, observed)
    return replace(plan, actions=(*telling, *serving, *plan.actions))


def _resumed(situation: Situation, status: Status) -> Status:
    """After a suspension the phase is begun anew, which counts as no failure."""
    if status.says(Kind.SUSPENDED, "True"):
        status = status.with_(
            attempt=stopping.next_attempt(situation.observed),
            state="Pending" if status.start_time is None else "Running",
            active_time=None if status.start_time is None else situation.now,
        )
    message = "the run is not suspended"
    return status.told(Kind.SUSPENDED, "False", Reason.NOT_SUSPENDED, message, situation.now)


def _worked(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """A step of the loop over phases."""
    observed = situation.observed
    kfp, verdict = observed.kfp, observed.verdict
    if status.attempt > observed.attempt:
        return retries.backing_off(situation, run, status)
    status = status.with_(attempt=observed.attempt)
    if not isinstance(kfp, KfpRun):
        return _started(situation, run, status)
    status = _at_work(situation, status).with_(state="Running", retry_time=None)
    if kfp.alive and not observed.lost:
        return _running(situation, run, status)
    if isinstance(verdict, Unknown):
        return unavailable(situation, status, Reason.STORE_UNAVAILABLE, verdict)
    if verdict is not None and verdict.action in ("advance", "finish", "stop"):
        return _followed(situation, run, status, verdict)
    return retries.judged(situation, run, status, kfp)


def _at_work(situation: Situation, status: Status) -> Status:
    """`status` that names the attempt's KFP run, with the clock of work going."""
    run_id = situation.run_id(status)
    return status.with_(
        kfp_run=run_id,
        kfp_url=progress.kfp_url(run_id, situation.platform),
        start_time=status.start_time or situation.now,
        active_time=status.active_time or situation.now,
    )


def _running(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    observed, poll_s = situation.observed, situation.platform.poll_seconds
    if retries.for_good(observed):
        return retries.cut_short(situation, status)
    doing = observed.standing.message if isinstance(observed.standing, State) else ""
    told = [progress.where(run, status), doing, observed.trouble]
    message = ": ".join(one for one in told if one)
    return waiting(status, "True", Reason.RUNNING, message, situation.now, requeue_s=poll_s)


def _started(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Begin an attempt, once its time has come."""
    nodes, poll_s = situation.observed.nodes, situation.platform.poll_seconds
    if status.retry_time is not None and situation.now < status.retry_time:
        return retries.backing_off(situation, run, status)
    status = _at_work(situation, status)
    actions: list[Action] = []
    if status.phase_index == 0 and status.attempt == 0 and status.mlflow_run is None:
        actions.append(OpenTracker())
    start = StartRun(
        run_id=situation.run_id(status),
        phase=status.phase_index,
        attempt=status.attempt,
        first=not situation.resource.held,
        nodes={} if isinstance(nodes, Unknown) else nodes,
    )
    actions.append(start)
    message, now = f"submitting {progress.where(run, status)}", situation.now
    return waiting(
        status, "True", Reason.SUBMITTING, message, now, actions=actions, requeue_s=poll_s
    )


def _followed(situation: Situation, run: AgentRLRun, status: Status, verdict: Verdict) -> Plan:
    """Do as the phase's decision says."""
    last = len(run.spec.horizon.phases) - 1
    if verdict.action == "stop":
        message = verdict.reason or "stopped"
        return ended(situation, status, "Failed", Reason.COLLAPSE_ERROR, message)
    if verdict.action == "finish" or status.phase_index >= last:
        message = verdict.reason or "the schedule is done"
        return ended(situation, status, "Succeeded", Reason.SCHEDULE_DONE, message)
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
    return waiting(status, "True", Reason.SUBMITTING, message, situation.now, requeue_s=0.0)


def _afterwards(situation: Situation, status: Status) -> Plan:
    """The run is over: nothing is left running, and at its time it goes."""
    run = situation.resource.run
    actions = without_servers(situation.observed) or admission.closed(situation, status)
    ttl_s = run.spec.ttl_seconds_after_finished if run is not None else None
    if ttl_s is None or status.completion_time is None:
        return Plan(actions=tuple(actions), status=status, requeue_s=None)
    left_s = ttl_s - (situation.now - status.completion_time).total_seconds()
    if left_s <= 0:
        return Plan(actions=(*actions, DeleteResource()), status=status, requeue_s=None)
    return Plan(actions=tuple(actions), status=status, requeue_s=left_s)
