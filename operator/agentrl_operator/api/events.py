"""Transitions of a run that are reported as Kubernetes Events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentrl_operator.api.conditions import BLOCKING, Kind, Reason
from agentrl_operator.api.status import Status

_WARNINGS = (*BLOCKING, Reason.BACKING_OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A transition, in the fields of an Event."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(before: Status, after: Status) -> Iterator[Transition]:
    """The transitions from one status to the next that are worth an Event: conditions that became
    true, changes of Progressing, and a rejected spec."""
    for condition in after.conditions:
        known = condition.type in set(Kind)
        before_condition = before.condition(Kind(condition.type)) if known else None
        if before_condition is not None and (
            (before_condition.status, before_condition.reason)
            == (condition.status, condition.reason)
        ):
            continue
        relevant = condition.status == "True" or condition.type == Kind.PROGRESSING
        rejected = condition.type == Kind.ACCEPTED and condition.status == "False"
        # No Event for the first conditions of a new run: the Event of its start follows soon.
        initial = before_condition is None and condition.reason in (
            Reason.VALID,
            Reason.ENVIRONMENTS_STARTING,
            Reason.SUBMITTING,
        )
        # Another condition reports the same change.
        duplicate = condition.type == Kind.PROGRESSING and (
            after.finished or condition.reason in (Reason.SUSPENDED, Reason.INVALID_SPEC)
        )
        if (relevant or rejected) and not initial and not duplicate:
            warning = condition.type == Kind.FAILED or condition.reason in _WARNINGS
            yield Transition(
                kind="Warning" if warning else "Normal",
                reason=condition.reason,
                message=condition.message,
            )
