"""A run's status as it is read and written."""

from datetime import timedelta

from demo_run import NOW, plan

from agentrl_components.spec.crd.status import STATUS
from agentrl_operator.api import status as statuses
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.status import Ray, Status
from agentrl_operator.planning.observation import Observation
from agentrl_operator.testing.schema_check import violations


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


def test_no_text_of_a_stored_status_is_longer_than_its_schema_allows():
    long = "x" * 40_000
    status = Status(
        success=long,
        best_checkpoint=long,
        kfp_run=long,
        kfp_url=long,
        mlflow_run=long,
        mlflow_url=long,
        ray=Ray(cluster=long, workers=long, dashboard_url=long, metrics_url=long),
    ).with_progressing("True", Reason.RUNNING, long, NOW)
    stored = statuses.as_json(status)

    assert list(violations(stored, STATUS, "status")) == []
    assert stored["success"] == "x" * 63 + "…"
    assert len(stored["conditions"][0]["message"]) == 32768
    assert len(stored["ray"]["dashboardUrl"]) == 2048
    assert statuses.as_json(statuses.read(stored)) == stored


def test_a_status_without_long_texts_is_stored_as_it_is():
    status = Status(success="81% [77, 85]").with_progressing("True", Reason.RUNNING, "on", NOW)
    stored = statuses.as_json(status)
    assert (stored["success"], stored["message"]) == ("81% [77, 85]", "on")
