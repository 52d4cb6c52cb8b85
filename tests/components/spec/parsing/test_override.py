from __future__ import annotations

from typing import Any

import pytest

from agentrl_components.spec.parsing.override import apply


def _read() -> dict[str, Any]:
    return {"spec": {"seed": 1, "horizon": {"phases": [{"maxTurns": 3}, {"maxTurns": 5}]}}}


@pytest.mark.parametrize("override", ["seed=3", "spec.seed=3", " seed =3"])
def test_spec_may_be_left_out(override):
    read = _read()
    assert apply(read, [override]) == []
    assert read["spec"]["seed"] == 3


@pytest.mark.parametrize(
    "override", ["horizon.phases.1.maxTurns=9", "spec.horizon.phases[1].maxTurns=9"]
)
def test_an_item_of_a_list_is_reached_by_its_place(override):
    read = _read()
    assert apply(read, [override]) == []
    assert read["spec"]["horizon"]["phases"] == [{"maxTurns": 3}, {"maxTurns": 9}]


def test_parts_that_are_not_there_are_made():
    read = _read() | {"metadata": {"name": "a"}}
    assert apply(read, ["algorithm.kl.coefficient=1e-3", "metadata.name=b", "model.lora={}"]) == []
    assert read["spec"]["algorithm"] == {"kl": {"coefficient": 0.001}}
    assert read["spec"]["model"] == {"lora": {}}
    assert read["metadata"] == {"name": "b"}


def test_an_option_of_an_environment_may_have_any_name():
    read: dict[str, Any] = {"spec": {"environments": [{"name": "a"}]}}
    assert apply(read, ["environments[0].options.compat=agentgym"]) == []
    assert read["spec"]["environments"] == [{"name": "a", "options": {"compat": "agentgym"}}]


def test_the_last_of_two_holds():
    read = _read()
    assert apply(read, ["seed=3", "seed=4"]) == []
    assert read["spec"]["seed"] == 4


def test_a_value_may_hold_an_equals_sign():
    read = _read()
    assert apply(read, ["tracking.experiment=a=b"]) == []
    assert read["spec"]["tracking"] == {"experiment": "a=b"}


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("seed", "--set seed: has no value; write field=value"),
        ("=3", "--set =3: has no value; write field=value"),
        ("seed=[1", "--set seed: [1 is not a YAML value; write one value, in quotes"),
        ("seed=!!set {a}", "--set seed: !!set {a} is not a YAML value; write one value, in quotes"),
        ("sede=3", "--set spec.sede: unknown field; did you mean seed?"),
        (
            "horizon.phases[0].max_turns=3",
            "--set spec.horizon.phases[0].max_turns: unknown field; did you mean maxTurns?",
        ),
        (
            "horizon.phases[2].maxTurns=3",
            "--set spec.horizon.phases[2]: spec.horizon.phases is a list of 2 items; "
            "use an index from 0 to 1",
        ),
        ("seed.low=3", "--set spec.seed.low: spec.seed is a single value; set spec.seed itself"),
        (
            "environments[0].name=a",
            "--set spec.environments[0]: spec.environments is a list of 0 items; "
            "set the whole list",
        ),
    ],
)
def test_a_path_that_leads_nowhere_is_told(override, line):
    read = _read()
    assert apply(read, [override]) == [line]
    assert read == _read()
