"""Failed attempts at a phase: their cause, and when the next attempt begins."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from agentrl_components.spec import AgentRLRun
from agentrl_components.storage.records import RunState
from agentrl_operator.api.conditions import Reason, rfc3339, stage_reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.status import Status
from agentrl_operator.planning import progress, stopping
from agentrl_operator.planning.actions import Action, TerminateKfpRun
from agentrl_operator.planning.observation import Observation, RayCluster, Unknown
from agentrl_operator.planning.plan import (
    Plan,
    Situation,
    final_plan,
    ray_deletion,
    unavailable_plan,
    waiting_plan,
)

FIRST_BACKOFF_S = 10.0
"""Delay after the first failure; it doubles with every further one."""
MAX_BACKOFF_S = 300.0
START_TIMEOUT_S = 300.0
"""An attempt fails if one of its pods has been unable to start for this long."""


def backoff_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Wait until `status.retry_time`."""
    now = situation.now
    left_s = (status.retry_time - now).total_seconds() if status.retry_time is not None else 0.0
    if left_s <= 0:
        return Plan(status=status, requeue_s=0.0)
    begin = rfc3339(now + timedelta(seconds=left_s))
    message = f"{progress.phase_text(run, status)} begins at {begin}"
    return waiting_plan(
        status, "True", Reason.BACKING_OFF, message, now, requeue_s=left_s, is_due=True
    )


def failure_plan(situation: Situation, run: AgentRLRun, status: Status, kfp: KfpRun) -> Plan:
    """After a failed attempt: retry with a delay, or end the run if the failure is permanent or
    `backoffLimit` is exceeded."""
    observation = situation.observation
    state = observation.run_state
    if isinstance(state, Unknown):
        return unavailable_plan(situation, status, Reason.STORE_UNAVAILABLE, state)
    cause = _cause(state, observation, kfp)
    if observation.pods:
        message = f"{cause}; waiting for {observation.pods} pods to end"
        return stopping.stopping_plan(situation, status, message)
    # KFP would report a run without its Workflow as RUNNING for ever.
    terminate = (TerminateKfpRun(run_id=situation.run_id(status)),)
    actions = terminate if observation.workflow_lost else ()
    if state is not None and state.status == "failed" and state.final:
        reason = stage_reason(state.reason)
        return final_plan(situation, status, "Failed", reason, cause, actions)
    return _next_try_plan(situation, run, status, status.attempt + 1, cause, actions)


def ray_failure_plan(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Count an attempt as failed whose Ray cluster cannot start, and replace the cluster. The
    attempt keeps its number: attempts without a KFP run would hide later ones from an operator
    that has lost the status."""
    seen = situation.observation.ray_cluster
    cause = f"the Ray cluster cannot start: {seen.problem}" if isinstance(seen, RayCluster) else ""
    actions = tuple(ray_deletion(situation.observation))
    return _next_try_plan(situation, run, status, status.attempt, cause, actions)


def _next_try_plan(
    situation: Situation,
    run: AgentRLRun,
    status: Status,
    next_attempt: int,
    cause: str,
    actions: Iterable[Action],
) -> Plan:
    """Wait before the next attempt at the phase, or end the run after too many."""
    now = situation.now
    failures = status.failures + 1
    if failures > run.spec.backoff_limit:
        where = progress.phase_text(run, status)
        message = f"{failures} attempts at {where} failed, the last: {cause}"
        reason = Reason.BACKOFF_LIMIT_EXCEEDED
        return final_plan(situation, status, "Failed", reason, message, actions)
    delay_s = min(FIRST_BACKOFF_S * 2 ** (failures - 1), MAX_BACKOFF_S)
    before = status
    status = status.with_(
        attempt=next_attempt,
        failures=failures,
        retry_time=now + timedelta(seconds=delay_s),
    )
    message = f"{cause}; trying again in {delay_s:.0f} s"
    return waiting_plan(
        status,
        "True",
        Reason.BACKING_OFF,
        message,
        now,
        actions=actions,
        status_on_failure=before,
        requeue_s=delay_s,
        is_due=True,
    )


def failed_permanently(observation: Observation) -> bool:
    """Whether a stage reported a failure that another attempt would repeat. False for a collapse:
    that phase stores its decision and its KFP run ends by itself."""
    state = observation.run_state
    return (
        isinstance(state, RunState)
        and (state.status, state.final) == ("failed", True)
        and state.reason != Reason.COLLAPSE_ERROR
    )


def cannot_start(observation: Observation) -> bool:
    """Whether a pod of the attempt has been unable to start for too long: KFP would wait for it."""
    return observation.blocked_s is not None and observation.blocked_s >= START_TIMEOUT_S


def ray_cannot_start(observation: Observation) -> bool:
    """Whether a pod of the Ray cluster has been unable to start for too long."""
    return observation.ray_blocked_s is not None and observation.ray_blocked_s >= START_TIMEOUT_S


def termination_plan(situation: Situation, status: Status) -> Plan:
    """Terminate a KFP run that would only retry a permanent failure, or wait for a pod that cannot
    start."""
    observation = situation.observation
    assert isinstance(observation.kfp, KfpRun)
    terminating = observation.kfp.state == "CANCELING"
    actions = () if terminating else (TerminateKfpRun(run_id=situation.run_id(status)),)
    cause = observation.pod_problem
    if failed_permanently(observation):
        assert isinstance(observation.run_state, RunState)
        cause = f"{observation.run_state.reason}: {observation.run_state.message}"
    return stopping.stopping_plan(situation, status, f"{cause}; stopping the KFP run", actions)


def _cause(state: RunState | None, observation: Observation, kfp: KfpRun) -> str:
    """Why an attempt failed: as its stages report it, else as KFP reports it."""
    if state is not None and state.status == "failed":
        name = f"{state.reason}: " if state.reason else ""
        return f"{name}{state.message}"
    if observation.workflow_lost:
        return "the Workflow of the KFP run is gone"
    if kfp.succeeded:
        return "the KFP run succeeded but stored no decision"
    parts = [f"the KFP run ended {kfp.state}", kfp.error, observation.pod_problem]
    return ": ".join(part for part in parts if part)
