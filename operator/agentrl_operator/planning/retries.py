"""Attempts at a phase that came to nothing: why, and when the next one begins."""

from __future__ import annotations

from datetime import timedelta

from agentrl_components.spec import AgentRLRun
from agentrl_components.storage.records import State
from agentrl_operator.api.conditions import Reason, rfc3339, stage_reason
from agentrl_operator.api.status import Status
from agentrl_operator.planning import progress, stopping
from agentrl_operator.planning.actions import TerminateRun
from agentrl_operator.planning.observation import KfpRun, Observed, Unknown
from agentrl_operator.planning.plan import Plan, ended, unavailable, waiting
from agentrl_operator.planning.situation import Situation

FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 300.0


def backing_off(situation: Situation, run: AgentRLRun, status: Status) -> Plan:
    """Wait for the time of the next attempt."""
    now = situation.now
    left = (status.retry_time - now).total_seconds() if status.retry_time is not None else 0.0
    if left <= 0:
        return Plan(status=status, requeue_s=0.0)
    message = f"{progress.where(run, status)} begins at {rfc3339(now + timedelta(seconds=left))}"
    return waiting(status, "True", Reason.BACKING_OFF, message, now, requeue_s=left)


def judged(situation: Situation, run: AgentRLRun, status: Status, kfp: KfpRun) -> Plan:
    """An attempt came to nothing: try again, unless that would fail alike or was tried enough."""
    observed, now = situation.observed, situation.now
    standing = observed.standing
    if isinstance(standing, Unknown):
        return unavailable(situation, status, Reason.STORE_UNAVAILABLE, standing)
    why, reason = _cause(standing, observed, kfp)
    if observed.pods:
        message = f"{why}; waiting for {observed.pods} pods to end"
        return stopping.awaited(situation, status, message)
    actions = (TerminateRun(run_id=situation.run_id(status)),) if observed.lost else ()
    if standing is not None and standing.status == "failed" and standing.final:
        return ended(situation, status, "Failed", reason, why, actions)
    failures = status.failures + 1
    if failures > run.spec.backoff_limit:
        message = f"{failures} attempts at {progress.where(run, status)} failed, the last: {why}"
        return ended(situation, status, "Failed", Reason.BACKOFF_LIMIT_EXCEEDED, message, actions)
    delay_s = min(FIRST_BACKOFF_S * 2 ** (failures - 1), LONGEST_BACKOFF_S)
    status = status.with_(
        attempt=status.attempt + 1,
        failures=failures,
        retry_time=now + timedelta(seconds=delay_s),
    )
    message = f"{why}; trying again in {delay_s:.0f} s"
    return waiting(
        status, "True", Reason.BACKING_OFF, message, now, actions=actions, requeue_s=delay_s
    )


def for_good(observed: Observed) -> bool:
    """Whether a stage has failed so that another try would end alike. A phase that decides to stop
    is left to end by itself."""
    standing = observed.standing
    return (
        isinstance(standing, State)
        and (standing.status, standing.final) == ("failed", True)
        and standing.reason != Reason.COLLAPSE_ERROR
    )


def cut_short(situation: Situation, status: Status) -> Plan:
    """Stop a KFP run that would only try the stage again."""
    observed = situation.observed
    assert isinstance(observed.standing, State)
    assert isinstance(observed.kfp, KfpRun)
    stopped = observed.kfp.state == "CANCELING"
    actions = () if stopped else (TerminateRun(run_id=situation.run_id(status)),)
    message = f"{observed.standing.reason}: {observed.standing.message}; stopping the KFP run"
    return stopping.awaited(situation, status, message, actions)


def _cause(standing: State | None, observed: Observed, kfp: KfpRun) -> tuple[str, Reason]:
    """Why an attempt failed: as its stages say, else as KFP says."""
    if standing is not None and standing.status == "failed":
        name = f"{standing.reason}: " if standing.reason else ""
        return f"{name}{standing.message}", stage_reason(standing.reason)
    if observed.lost:
        return "the Workflow of the KFP run is gone", Reason.WORKFLOW_LOST
    if kfp.succeeded:
        return "the KFP run succeeded but decided nothing", Reason.STAGE_FAILED
    told = [f"the KFP run ended {kfp.state}", kfp.error, observed.trouble]
    return ": ".join(one for one in told if one), Reason.STAGE_FAILED
