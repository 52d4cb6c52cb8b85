"""The definition that an API server is given: its schema, its rules, and what kubectl shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_schema import FIELDS, SPEC, schemas

from agentrl_components.spec import RunSpec
from agentrl_components.spec.crd.definition import definition, structural, text
from agentrl_components.spec.crd.reference import reference
from agentrl_components.spec.mutable import mutability
from agentrl_components.spec.rules.validation import RULES

ROOT = Path(__file__).parents[4]
KEYS = {
    "type", "description", "default", "enum", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "pattern", "required", "nullable", "items", "properties",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type",
    "additionalProperties",
}  # fmt: skip


def test_the_schema_is_structural():
    root = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, schema in schemas(root, ""):
        assert set(schema) <= KEYS, path
        assert "type" in schema, path
        if schema["type"] == "object" and path != ".metadata":
            said = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
            assert sum(name in schema for name in said) == 1, path


def test_every_field_of_a_run_has_a_doc_and_a_bound():
    for path, schema in FIELDS:
        if not path.endswith("[]"):
            assert schema.get("description"), path
        if schema["type"] == "string" and "enum" not in schema:
            assert "maxLength" in schema, path
        if schema["type"] == "array":
            assert "maxItems" in schema, path
        if schema["type"] in ("integer", "number"):
            assert {"minimum", "maximum"} <= set(schema), path


def test_defaults_are_the_contracts_own():
    least = {
        "environments": [{"name": "a"}],
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
    }
    own = RunSpec.model_validate(least).model_dump(mode="json", by_alias=True)
    assert _without_nulls(own) == _defaulted(SPEC, least)


def _defaulted(schema: dict[str, Any], value: Any) -> Any:
    """`value` with the schema's defaults filled in, as an API server does it."""
    if isinstance(value, list):
        return [_defaulted(schema["items"], item) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    filled = {
        name: _defaulted(inner, value.get(name, inner.get("default")))
        for name, inner in schema["properties"].items()
    }
    return _without_nulls(filled)


def _without_nulls(value: Any) -> Any:
    """Without nulls, and without empty mappings, for which the schema needs no default."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {
            name: _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None and name not in ("options", "nodeSelector")
        }
    return value


def test_what_is_null_by_default_may_be_null():
    revision = SPEC["properties"]["model"]["properties"]["revision"]
    assert revision["nullable"] is True
    assert "default" not in revision


def test_the_options_of_an_environment_keep_unknown_fields():
    items = SPEC["properties"]["environments"]["items"]
    options = items["properties"]["options"]
    assert options["x-kubernetes-preserve-unknown-fields"] is True
    assert options["type"] == "object"


def _rules():
    """Every rule of the schema by its message: where it stands, what it says, and the field that it
    names when it is broken."""
    return {
        rule["message"]: (path, rule["rule"], path + rule.get("fieldPath", ""))
        for path, schema in schemas(SPEC, "spec")
        for rule in schema.get("x-kubernetes-validations", ())
        if rule["message"] in {one.message for one in RULES}
    }


def test_the_rules_that_cel_can_say_are_in_the_schema():
    rules = _rules()
    assert set(rules) == {rule.message for rule in RULES if rule.cel}
    for rule in RULES:
        if rule.cel:
            path, cel, field = rules[rule.message]
            said = re.sub(r"oldSelf\.hasValue\(\) \|\| \((.*)\)$", r"\1", cel)
            assert said.replace("self", path) == rule.cel.replace("self", "spec")
            assert field == "spec." + rule.reads[0].split(".*")[0]
    without = {rule.check.__name__ for rule in RULES if rule.cel is None}
    assert without == {
        "environment_names_are_unique",  # the API server checks x-kubernetes-list-map-keys
        "options_need_builtin",
        "babyai_text_fits_model",
    }


def test_a_rule_stands_where_everything_is_that_it_looks_at():
    rules = {field: (path, cel) for path, cel, field in _rules().values()}
    assert rules["spec.algorithm.kl"] == (
        "spec.algorithm.kl",
        "oldSelf.hasValue() || (self.coefficient > 0.0 || self.estimator == 'k3')",
    )
    assert rules["spec.rollout.actions"][0] == "spec.rollout"
    assert rules["spec.rollout.topP"][0] == "spec"  # it looks at the algorithm, too
    assert rules["spec.warmStart"][0] == "spec"  # which may be missing


def test_a_part_with_rules_has_all_its_defaults_written_out():
    kl = SPEC["properties"]["algorithm"]["properties"]["kl"]
    assert kl["default"] == {"coefficient": 0.0, "estimator": "k3"}
    assert SPEC["properties"]["storage"]["default"] == {}  # no rule stands there


def test_a_part_of_the_spec_has_one_owner():
    """Fields that are owned one by one would be named one by one in every object."""
    assert "x-kubernetes-map-type" not in SPEC
    owned = {path for path, one in schemas(SPEC, "spec") if "x-kubernetes-map-type" in one}
    assert owned == {
        "spec.model", "spec.environments[]", "spec.algorithm", "spec.horizon", "spec.warmStart",
        "spec.rollout", "spec.update", "spec.evaluation", "spec.compute", "spec.storage",
        "spec.tracking",
    }  # fmt: skip


def _looks_at(cel):
    """The paths that an expression looks at, as `reads` has them."""
    verbs = "map|all|exists_one|startsWith|contains|matches|isSorted|max|sum"
    path = rf"\bself((?:\.(?!(?:{verbs})\()\w+)+)"
    yield from (found.removeprefix(".") for found in re.findall(path, cel))
    for around, item in re.findall(rf"{path}\.(?:map|all|exists_one)\((\w+),", cel):
        for field in re.findall(rf"\b{item}\.(\w+)", cel):
            yield f"{around.removeprefix('.')}.*.{field}"


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.cel], ids=lambda rule: rule.message
)
def test_a_rule_is_asked_again_only_where_something_that_it_looks_at_may_change(rule):
    """An API server that skips a rule relies on the fields that the rule names."""
    for path in _looks_at(rule.cel):
        named = [f"{one}." for one in rule.reads]
        assert any(one.startswith(f"{path}.") or f"{path}.".startswith(one) for one in named)

    _, cel, _ = _rules()[rule.message]
    free = any(mutability(one) != "immutable" for one in rule.reads)
    assert cel.startswith("oldSelf.hasValue() || (") != free


def test_a_cluster_keeps_runs_in_s3():
    (rule, *_) = SPEC["properties"]["storage"]["properties"]["url"]["x-kubernetes-validations"]
    assert rule["rule"] == "self.startsWith('s3://')"


def test_a_name_may_have_52_characters():
    root = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "size(self.metadata.name) <= 52" in root["x-kubernetes-validations"][0]["rule"]


def test_kubectl_shows_the_run_at_a_glance():
    (version,) = definition()["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    assert [column["name"] for column in columns if "priority" not in column] == [
        "State", "Reason", "Horizon", "Iteration", "Success", "Age",
    ]  # fmt: skip
    assert [column["name"] for column in columns if column.get("priority") == 1] == [
        "KFP run", "MLflow", "Message",
    ]  # fmt: skip
    assert version["subresources"] == {"status": {}}


def test_a_union_cannot_be_said():
    with pytest.raises(TypeError, match="no unions"):
        structural({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {})


def test_the_yaml_is_the_definition():
    assert yaml.safe_load(text()) == json.loads(json.dumps(definition()))


def test_the_chart_installs_the_definition_that_the_contract_makes():
    assert (ROOT / "helm/agentrl/files/crd.yaml").read_text() == text()


def test_the_reference_is_the_one_that_the_contract_makes():
    assert (ROOT / "docs/manifest.md").read_text() == reference()
