from __future__ import annotations

from typing import Any

import pytest

from agentrl_components.spec.parsing.override import apply


def _read() -> dict[str, Any]:
    return {"spec": {"seed": 1, "horizon": {"phases": [{"maxTurns": 3}, {"maxTurns": 5}]}}}


@pytest.mark.parametrize("override", ["seed=3", "spec.seed=3", " seed =3"])
def test_the_spec_prefix_is_optional(override):
    read = _read()
    assert apply(read, [override]) == []
    assert read["spec"]["seed"] == 3


@pytest.mark.parametrize(
    "override", ["horizon.phases.1.maxTurns=9", "spec.horizon.phases[1].maxTurns=9"]
)
def test_list_items_are_addressed_by_index(override):
    read = _read()
    assert apply(read, [override]) == []
    assert read["spec"]["horizon"]["phases"] == [{"maxTurns": 3}, {"maxTurns": 9}]


def test_missing_mappings_are_created():
    read = _read() | {"metadata": {"name": "a"}}
    assert apply(read, ["algorithm.kl.coefficient=1e-3", "metadata.name=b", "model.lora={}"]) == []
    assert read["spec"]["algorithm"] == {"kl": {"coefficient": 0.001}}
    assert read["spec"]["model"] == {"lora": {}}
    assert read["metadata"] == {"name": "b"}


def test_environment_options_can_have_any_name():
    read: dict[str, Any] = {"spec": {"environments": [{"name": "a"}]}}
    assert apply(read, ["environments[0].options.compat=agentgym"]) == []
    assert read["spec"]["environments"] == [{"name": "a", "options": {"compat": "agentgym"}}]


def test_the_last_override_of_a_field_takes_precedence():
    read = _read()
    assert apply(read, ["seed=3", "seed=4"]) == []
    assert read["spec"]["seed"] == 4


def test_a_value_can_contain_an_equals_sign():
    read = _read()
    assert apply(read, ["tracking.experiment=a=b"]) == []
    assert read["spec"]["tracking"] == {"experiment": "a=b"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [("null", None), (" ~ ", None), ('""', ""), ("''", ""), ("[]", []), ("{}", {})],
)
def test_null_and_an_empty_text_list_or_mapping_are_values(given, expected):
    read = _read()
    assert apply(read, [f"seed={given}"]) == []
    assert read["spec"]["seed"] == expected


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("seed", "--set seed: has no value; write field=value"),
        ("=3", "--set =3: names no field; write field=value"),
        (".=1", "--set .=1: names no field; write field=value"),
        ("[]=1", "--set []=1: names no field; write field=value"),
        *(
            (
                f"seed={empty}",
                '--set seed: has an empty value; write null for the default, or "" for empty text',
            )
            for empty in ("", "  ", "# 3")
        ),
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
def test_an_invalid_override_is_reported_and_changes_nothing(override, line):
    read = _read()
    assert apply(read, [override]) == [line]
    assert read == _read()
