"""What to do about a run: a pure function of its manifest, its status and the observation.

    reconcile(resource, status, observation, platform, now) -> Plan

The same input gives the same plan, and after the plan is executed, the next one is empty. Nothing
depends on the order of events or on what the operator did before: only the status remembers. A
status that was lost is restored by walking through the phases' KFP runs and decisions.

A phase is one KFP run at a time. The next attempt at a phase begins when KFP and Kubernetes report
that nothing of the previous one is left.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Literal

from agentrl_components.schedule.record import Decision
from agentrl_components.spec import AgentRLRun
from agentrl_components.storage.records import RunState
from agentrl_operator.api.conditions import Kind, Reason, Truth
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.planning import admission, environments, progress, ray, retries, stopping
from agentrl_operator.planning.actions import (
    Action,
    AddFinalizer,
    CreateMlflowRun,
    DeleteResource,
    FinishMlflowRun,
    StartKfpRun,
)
from agentrl_operator.planning.observation import Observation, Unknown
from agentrl_operator.planning.plan import (
    Plan,
    Situation,
    final_plan,
    server_deletions,
    unavailable_plan,
    waiting_plan,
)
from agentrl_operator.planning.rejection import rejection_plan
from agentrl_pipelines.platform.config import Platform

NOT_INSTALLED = (Reason.AGENT_SANDBOX_UNAVAILABLE, Reason.KUBERAY_UNAVAILABLE)
"""Reasons for which a phase does not start until somebody installs something."""
MLFLOW_RETRY_S = 60.0
"""Interval of attempts to finish the MLflow run of a finished run, if MLflow did not answer."""
MLFLOW_TIMEOUT_S = 3600.0
"""How long after the end of the run these attempts go on."""


def reconcile(
    resource: Resource, status: Status, observation: Observation, platform: Platform, now: datetime
) -> Plan:
    """The actions to execute now, the status after them, and when to reconcile again."""
    situation = Situation(resource=resource, observation=observation, platform=platform, now=now)
    status = status.with_(observed_generation=resource.generation)
    if resource.deleted_at is not None:
        return stopping.deletion_plan(situation, status)
    status = _with_acceptance(situation, status)
    if status.finished:
        return _finished_plan(situation, status)
    finalizer: tuple[Action, ...] = () if resource.has_finalizer else (AddFinalizer(),)
    plan = _plan(situation, status)
    return replace(plan, actions=(*finalizer, *plan.actions))


def _with_acceptance(situation: Situation, status: Status) -> Status:
    """`status` with the Accepted condition."""
    resource, now = situation.resource, situation.now
    if resource.run is None:
        message = "; ".join(resource.mistakes)
        return status.with_condition(Kind.ACCEPTED, "False", Reason.INVALID_SPEC, message, now)
    message = "the manifest can be run"
    return status.with_condition(Kind.ACCEPTED, "True", Reason.VALID, message, now)


def _plan(situation: Situation, status: Status) -> Plan:
    """The plan of a run that is neither deleted nor finished."""
    run, observation = situation.resource.run, situation.observation
    if run is not None:
        status = progress.with_progress(situation, run, status)
        status = ray.with_unread_cluster(situation, run, status)
    if situation.resource.suspend or status.has_condition(
        Kind.SUSPENDED, "False", Reason.SUSPENDING
    ):
        # After a status was lost, a later phase may have work to stop: go on to that phase.
        if run is not None and observation.phase_succeeded:
            return _phase_plan(situation, run, status)
        return stopping.suspension_plan(situation, status)
    if isinstance(observation.kfp, Unknown):
        return unavailable_plan(situation, status, Reason.KFP_UNAVAILABLE, observation.kfp)
    status = _with_resumption(situation, status)
    queued = admission.queued_plan(situation, status)
    if queued is not None:
        # A phase that has succeeded counts also if the run is not admitted, which waits in the
        # next phase.
        if run is not None and observation.phase_succeeded:
            return _phase_plan(situation, run, status)
        if run is not None or stopping.remaining_work(situation, status) is not None:
            return queued
    if run is None:
        return rejection_plan(situation, status)
    return _active_plan(situation, run, status)


def _active_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """The plan of a run that is neither suspended nor queued: what it owns is kept, and its phase
    goes on until its deadline."""
    observation = situation.observation
    if isinstance(observation.nodes, Unknown):
        return unavailable_plan(situation, status, Reason.KUBERNETES_REFUSED, observation.nodes)
    workload_actions, status = admission.workload_updates(situation, status)
    server_actions, status = environments.server_updates(situation, run, status)
    ray_actions, status = ray.cluster_updates(situation, run, status)
    late = stopping.deadline_plan(situation, status, run.spec.active_deadline_seconds)
    if late is not None:
        return late
    plan = _phase_plan(situation, run, status)
    if plan.status.finished:
        return plan
    starting = any(isinstance(action, StartKfpRun) for action in plan.actions)
    if starting or observation.restore_due:
        secret = starting or observation.may_lack_object
        server_actions = environments.all_server_updates(situation, run, secret=secret)
    unused = environments.unused_server_deletions(situation, run)
    actions = (*workload_actions, *unused, *server_actions, *ray_actions, *plan.actions)
    return replace(plan, actions=actions)


def _with_resumption(situation: Situation, status: Status) -> Status:
    """`status` of a run that is not suspended. After a suspension, a new attempt continues the
    phase, which does not count as a failure."""
    if status.has_condition(Kind.SUSPENDED, "True"):
        status = status.with_(
            attempt=stopping.next_attempt(situation.observation),
            state="Pending" if status.start_time is None else "Running",
            active_time=None if status.start_time is None else situation.now,
        )
    message = "the run is not suspended"
    return status.with_condition(
        Kind.SUSPENDED, "False", Reason.NOT_SUSPENDED, message, situation.now
    )


def _phase_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """One step of the loop over phases."""
    observation = situation.observation
    kfp, decision = observation.kfp, observation.decision
    if status.attempt > observation.attempt:
        return retries.backoff_plan(situation, run, status)
    status = status.with_(attempt=observation.attempt)
    if not isinstance(kfp, KfpRun):
        return _start_plan(situation, run, status)
    status = progress.with_kfp_run(situation, status).with_(state="Running", retry_time=None)
    if kfp.alive and not observation.workflow_lost:
        return _running_plan(situation, run, status)
    if isinstance(decision, Unknown):
        return unavailable_plan(situation, status, Reason.STORE_UNAVAILABLE, decision)
    if decision is not None and decision.action in ("advance", "finish", "stop"):
        return _decision_plan(situation, run, status, decision)
    return retries.failure_plan(situation, run, status, kfp)


def _running_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Report the progress of the KFP run, or terminate it after a permanent failure."""
    observation, poll_s = situation.observation, situation.platform.poll_seconds
    if retries.failed_permanently(observation) or retries.cannot_start(observation):
        return retries.termination_plan(situation, status)
    state = observation.run_state
    stage_message = state.message if isinstance(state, RunState) else ""
    queue = ray.queue_text(observation)
    parts = [progress.phase_text(run, status), stage_message, observation.pod_problem, queue]
    message = ": ".join(part for part in parts if part)
    reason = observation.waits_for or (Reason.QUEUED if queue else Reason.RUNNING)
    if observation.blocked_s is not None:
        reason = Reason.POD_CANNOT_START
    return waiting_plan(status, "True", reason, message, situation.now, requeue_s=poll_s)


def _start_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Start the attempt's KFP run, unless the delay after a failure is not over."""
    nodes, poll_s = situation.observation.nodes, situation.platform.poll_seconds
    if situation.observation.pods:
        # Somebody deleted the KFP run in KFP. The same attempt is submitted again.
        message = f"the KFP run was deleted; waiting for {situation.observation.pods} pods to end"
        return stopping.stopping_plan(situation, status, message)
    if status.retry_time is not None and situation.now < status.retry_time:
        return retries.backoff_plan(situation, run, status)
    waits_for = environments.missing(situation, run) or ray.missing(situation, run)
    if waits_for is not None:
        reason, message = waits_for
        status = progress.with_clock_running(situation, status)
        if retries.ray_cannot_start(situation.observation):
            return retries.ray_failure_plan(situation, run, status)
        truth: Truth = "False" if reason in NOT_INSTALLED else "True"
        return waiting_plan(status, truth, reason, message, situation.now, requeue_s=poll_s)
    status = progress.with_kfp_run(situation, status)
    actions: list[Action] = []
    if status.phase_index == 0 and status.attempt == 0 and status.mlflow_run is None:
        actions.append(CreateMlflowRun())
    start = StartKfpRun(
        run_id=situation.run_id(status),
        phase=status.phase_index,
        attempt=status.attempt,
        first=not situation.resource.has_finalizer,
        nodes={} if isinstance(nodes, Unknown) else nodes,
    )
    actions.append(start)
    message, now = f"submitting {progress.phase_text(run, status)}", situation.now
    return waiting_plan(
        status, "True", Reason.SUBMITTING, message, now, actions=actions, requeue_s=poll_s
    )


def _decision_plan(
    situation: Situation, run: AgentRLRun, status: Status, decision: Decision
) -> Plan:
    """Carry out the decision that ended the phase: the next phase, or the end of the run."""
    last = len(run.spec.horizon.phases) - 1
    if decision.action == "stop":
        message = decision.reason or "stopped"
        return final_plan(situation, status, "Failed", Reason.COLLAPSE_ERROR, message)
    if decision.action == "finish" or status.phase_index >= last:
        message = decision.reason or "the schedule is done"
        return final_plan(situation, status, "Succeeded", Reason.SCHEDULE_DONE, message)
    next_phase = min(max(decision.phase, status.phase_index + 1), last)
    status = status.with_(
        phase_index=next_phase,
        attempt=0,
        failures=0,
        retry_time=None,
        horizon=run.spec.horizon.phases[next_phase].max_turns,
        kfp_run=None,
        kfp_url=None,
    )
    message = decision.reason or f"on to {progress.phase_text(run, status)}"
    return waiting_plan(status, "True", Reason.SUBMITTING, message, situation.now, requeue_s=0.0)


def _finished_plan(situation: Situation, status: Status) -> Plan:
    """Remove what is left of a finished run, and delete it when its time to live is over."""
    resource, since, observation = situation.resource, status.completion_time, situation.observation
    actions = server_deletions(observation) or admission.quota_release(situation, status)
    ended_s = (situation.now - since).total_seconds() if since is not None else 0.0
    if observation.ray_cluster is None:
        status = status.with_(ray=None)
    requeue_s = stopping.look_again_s(observation)
    if status.mlflow_run and not status.mlflow_finished and ended_s < MLFLOW_TIMEOUT_S:
        outcome: Literal["FINISHED", "FAILED"] = (
            "FINISHED" if status.state == "Succeeded" else "FAILED"
        )
        actions = [*actions, FinishMlflowRun(run_id=status.mlflow_run, status=outcome)]
        requeue_s = requeue_s or MLFLOW_RETRY_S
    ttl_s = resource.stated.ttl_s  # also of a manifest that the platform does not accept any more
    if ttl_s is None or since is None:
        return Plan(actions=tuple(actions), status=status, requeue_s=requeue_s)
    left_s = ttl_s - ended_s
    if left_s <= 0:
        return Plan(actions=(*actions, DeleteResource()), status=status, requeue_s=None)
    is_due = requeue_s is None or left_s < requeue_s
    return Plan(
        actions=tuple(actions),
        status=status,
        requeue_s=left_s if requeue_s is None else min(left_s, requeue_s),
        is_due=is_due,
    )
