"""A run's status as it is read and written."""

from datetime import timedelta

from demo_run import NOW, plan

from agentrl_operator.api import status as statuses
from agentrl_operator.api.conditions import Kind
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.status import Status
from agentrl_operator.planning.observation import Observation


def test_a_condition_keeps_its_transition_time_while_its_status_is_the_same():
    first = plan()
    later = NOW + timedelta(minutes=5)
    second = plan(status=first.status, observed=Observation(kfp=KfpRun(state="RUNNING")), now=later)

    progressing = second.status.condition(Kind.PROGRESSING)
    assert progressing.reason == "Running"
    assert progressing.last_transition_time == NOW


def test_an_invalid_status_is_read_as_an_empty_one():
    assert statuses.read({"phaseIndex": "one"}) == Status()


def test_a_status_patch_contains_only_changes():
    before = {"state": "Pending", "kfpRun": "a", "attempt": 0}
    assert statuses.patch(before, {"state": "Running", "attempt": 0}) == {
        "state": "Running",
        "kfpRun": None,
    }
    assert statuses.patch(before, dict(before)) == {}
