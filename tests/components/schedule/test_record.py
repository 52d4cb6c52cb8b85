"""Records and decisions in JSON, with numbers that are not finite."""

import json
import math

import pytest
from iteration_records import iteration_record

from agentrl_components.schedule.record import Decision, FiredAlarm, IterationRecord

NOT_FINITE = [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]


def decision(value):
    alarm = FiredAlarm(
        alarm=0,
        signal="grad_norm_above",
        action="record",
        value=value,
        bound=5.0,
        message="gradient norm",
    )
    return Decision(action="finish", phase=0, max_turns=3, reason="over", alarms=(alarm,))


def record(value, **fields):
    return iteration_record(
        iteration=0, phase=0, max_turns=3, grad_norm=value, decision=decision(value), **fields
    )


def strictly(text):
    """JSON data; `NaN` and `Infinity` outside of strings are refused, as other languages do."""
    return json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(("value", "text"), NOT_FINITE)
def test_a_decision_with_a_number_that_is_not_finite_is_read_as_it_was_written(value, text):
    written = decision(value).model_dump_json()
    assert strictly(written)["alarms"][0]["value"] == text
    # NaN equals nothing, not even itself
    assert repr(Decision.model_validate_json(written)) == repr(decision(value))


@pytest.mark.parametrize(("value", "text"), NOT_FINITE)
def test_the_data_of_a_record_is_json_and_gives_the_record_again(value, text):
    data = record(value, heldout=value).json_data()
    assert data["metrics"] == {"update/grad_norm": text}
    assert (data["heldout"], data["decision"]["alarms"][0]["value"]) == (text, text)
    assert strictly(json.dumps(data)) == data
    assert repr(IterationRecord.model_validate(data)) == repr(record(value, heldout=value))


def test_the_data_of_a_finite_record_has_the_numbers_that_the_record_has():
    finite = record(0.1 + 0.2, success=1e-7, entropy=None, turns=3.0)
    expected = finite.model_dump(mode="json")
    assert json.dumps(finite.json_data()) == json.dumps(expected)
    assert json.dumps(expected["metrics"]) == (
        '{"update/grad_norm": 0.30000000000000004, "train/success": 1e-07,'
        ' "update/entropy": null, "train/turns": 3.0}'
    )


def test_a_record_with_nan_as_earlier_versions_wrote_it_is_read():
    text = '{"iteration": 0, "phase": 0, "max_turns": 3, "metrics": {"update/grad_norm": NaN}}'
    assert math.isnan(IterationRecord.model_validate_json(text).grad_norm)


def test_a_heldout_score_is_stored_only_where_it_says_more_than_the_success():
    assert "heldout_score" not in record(1.0, heldout=0.5).json_data()
    graded = record(1.0, heldout=0.0, heldout_score=0.5)
    assert IterationRecord.model_validate(graded.json_data()) == graded
