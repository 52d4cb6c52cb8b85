"""What to do about a run now, and what to say of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agentrl_operator.api.conditions import Kind, Reason, Truth
from agentrl_operator.api.status import Status
from agentrl_operator.planning.actions import Action, CloseTracker, RemoveServers
from agentrl_operator.planning.observation import Observed, Unknown
from agentrl_operator.planning.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer of `reconcile`."""

    actions: tuple[Action, ...] = ()
    """In order; one that fails holds up the rest."""
    status: Status
    """What is true once they are done."""
    requeue_s: float | None
    """When to look again. None: when something happens."""


def waiting(
    status: Status,
    truth: Truth,
    reason: Reason,
    message: str,
    now: datetime,
    *,
    requeue_s: float | None,
    actions: Iterable[Action] = (),
) -> Plan:
    """A plan whose Progressing condition says what is waited for."""
    told = status.progressing(truth, reason, message, now)
    return Plan(actions=tuple(actions), status=told, requeue_s=requeue_s)


def unavailable(situation: Situation, status: Status, reason: Reason, unknown: Unknown) -> Plan:
    """Nothing is decided while a neighbour does not answer."""
    again_s = max(situation.platform.poll_seconds, 5.0)
    return waiting(status, "Unknown", reason, unknown.why, situation.now, requeue_s=again_s)


def ended(
    situation: Situation,
    status: Status,
    outcome: Literal["Succeeded", "Failed"],
    reason: Reason,
    message: str,
    actions: Iterable[Action] = (),
) -> Plan:
    """The run is over for good."""
    observed, now = situation.observed, situation.now
    well = outcome == "Succeeded"
    kind, other = (Kind.SUCCEEDED, Kind.FAILED) if well else (Kind.FAILED, Kind.SUCCEEDED)
    status = (
        rested(status, now)
        .with_(state=outcome, completion_time=now, retry_time=None)
        .told(kind, "True", reason, message, now)
        .told(other, "False", Reason.ENDED, f"the run {outcome.lower()}", now)
        .progressing("False", Reason.ENDED, message, now)
    )
    closing: list[Action] = [*actions, *without_servers(observed)]
    if status.mlflow_run is not None:
        closing.append(
            CloseTracker(run_id=status.mlflow_run, status="FINISHED" if well else "FAILED")
        )
    return Plan(actions=tuple(closing), status=scaled_down(status, observed, now), requeue_s=0.0)


def rested(status: Status, now: datetime) -> Status:
    """The clock of work stands still."""
    return status.with_(active_seconds=int(status.active_for(now)), active_time=None)


def without_servers(observed: Observed) -> list[Action]:
    """Nothing plays: no server need run."""
    return [RemoveServers(deployment=name) for name in sorted(observed.servers)]


def scaled_down(status: Status, observed: Observed, now: datetime) -> Status:
    """As `without_servers` leaves it."""
    if not observed.servers:
        return status
    message = "no servers run while nothing is played"
    return status.told(Kind.ENVIRONMENTS_READY, "False", Reason.SCALED_DOWN, message, now)
