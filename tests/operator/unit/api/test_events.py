"""Which changes of a run become Events."""

from __future__ import annotations

from datetime import UTC, datetime

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.events import transitions
from agentrl_operator.api.status import Status

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def progressing(before: Status, reason: Reason, message: str = "") -> Status:
    return before.with_condition(Kind.PROGRESSING, "True", reason, message, NOW)


def reasons(before: Status, after: Status) -> list[str]:
    return [one.reason for one in transitions(before, after)]


def test_a_new_run_has_no_event_until_it_is_running():
    accepted = Status().with_condition(Kind.ACCEPTED, "True", Reason.VALID, "", NOW)
    first = progressing(accepted, Reason.SUBMITTING)
    assert reasons(Status(), first) == []
    assert reasons(first, progressing(first, Reason.RUNNING)) == ["Running"]


def test_a_later_submission_is_an_event():
    running = progressing(Status(), Reason.RUNNING)
    assert reasons(running, progressing(running, Reason.SUBMITTING)) == ["Submitting"]


def test_a_new_run_that_cannot_be_submitted_is_a_warning():
    (told,) = transitions(Status(), progressing(Status(), Reason.KFP_UNAVAILABLE, "no answer"))
    assert (told.kind, told.reason, told.message) == ("Warning", "KfpUnavailable", "no answer")
