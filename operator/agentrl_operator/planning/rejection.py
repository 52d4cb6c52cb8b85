"""What to do about a run whose manifest is not accepted."""

from __future__ import annotations

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.status import Status
from agentrl_operator.planning import progress, retries, stopping
from agentrl_operator.planning.plan import (
    Plan,
    Situation,
    server_deletions,
    waiting_plan,
    with_clock_stopped,
    with_servers_scaled_down,
)


def rejection_plan(situation: Situation, status: Status) -> Plan:
    """Start nothing until the manifest is corrected. The run has not failed: an edit can revive it.
    A phase that was started by an earlier manifest goes on until its deadline."""
    resource, observation, now = situation.resource, situation.observation, situation.now
    limit_s, message = resource.stated.deadline_s, "; ".join(resource.mistakes)
    late = stopping.deadline_plan(situation, status, limit_s)
    if late is not None:
        return late
    remaining = stopping.remaining_work(situation, status)
    if remaining is None:
        return _idle_plan(situation, status, message)
    if observation.workflow_lost or not situation.is_working:
        return stopping.remaining_work_plan(situation, status, remaining, message)
    if retries.cannot_start(observation):
        return retries.termination_plan(situation, status)
    status = status.with_(attempt=observation.attempt, state="Running")
    status = progress.with_kfp_run(situation, status)
    message, poll_s = f"{message}; the phase goes on", situation.platform.poll_seconds
    return waiting_plan(status, "True", Reason.INVALID_SPEC, message, now, requeue_s=poll_s)


def _idle_plan(situation: Situation, status: Status, message: str) -> Plan:
    """Release what a run without work occupies, until its manifest is corrected."""
    observation, now, before = situation.observation, situation.now, status
    status = with_clock_stopped(with_servers_scaled_down(status, observation, now), now)
    if observation.workload is not None:
        status = status.with_condition(Kind.ADMITTED, "False", Reason.INVALID_SPEC, message, now)
    actions = server_deletions(observation) or stopping.workload_deletion(situation, status)
    return waiting_plan(
        status.with_(state="Pending"),
        "False",
        Reason.INVALID_SPEC,
        message,
        now,
        actions=actions,
        status_on_failure=before,
        requeue_s=stopping.POLL_S if actions else stopping.look_again_s(observation),
    )
