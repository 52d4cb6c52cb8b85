"""Changes of a run that people wait for: each becomes an Event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.status import Status

_WARNINGS = (
    Reason.INVALID_SPEC,
    Reason.NO_PRIORITY_CLASS,
    Reason.BACKING_OFF,
    Reason.KFP_UNAVAILABLE,
    Reason.KFP_REFUSED,
    Reason.KUBERNETES_REFUSED,
    Reason.STORE_UNAVAILABLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One of them."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(before: Status, after: Status) -> Iterator[Transition]:
    """What has changed from one status to the next."""
    for condition in after.conditions:
        was = before.condition(Kind(condition.type)) if condition.type in set(Kind) else None
        if was is not None and (was.status, was.reason) == (condition.status, condition.reason):
            continue
        told = condition.status == "True" or condition.type == Kind.PROGRESSING
        refused = condition.type == Kind.ACCEPTED and condition.status == "False"
        # What is said first of a new run is no change; that it works is soon told.
        quiet = was is None and condition.reason in (Reason.VALID, Reason.SUBMITTING)
        ended = condition.type == Kind.PROGRESSING and condition.reason in (
            Reason.ENDED,
            Reason.SUSPENDED,
            Reason.INVALID_SPEC,
        )
        if (told or refused) and not quiet and not ended:
            bad = condition.type == Kind.FAILED or condition.reason in _WARNINGS
            yield Transition(
                kind="Warning" if bad else "Normal",
                reason=condition.reason,
                message=condition.message,
            )
