"""The CustomResourceDefinition: its schema, validation rules and printer columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from crd_schema import FIELDS, SPEC, nested_schemas

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
    for path, schema in nested_schemas(root, ""):
        assert set(schema) <= KEYS, path
        assert "type" in schema, path
        if schema["type"] == "object" and path != ".metadata":
            content = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
            assert sum(name in schema for name in content) == 1, path


MAPPINGS = ("options", "nodeSelector", "podLabels", "podAnnotations")


def test_every_field_has_a_description_and_bounds():
    for path, schema in FIELDS:
        if not path.endswith("[]"):
            assert schema.get("description"), path
        if schema["type"] == "string" and "enum" not in schema:
            assert "maxLength" in schema, path
        if schema["type"] == "array":
            assert "maxItems" in schema, path
        if schema["type"] in ("integer", "number"):
            assert {"minimum", "maximum"} <= set(schema), path


def test_the_defaults_of_the_schema_equal_those_of_the_model():
    minimal = {
        "environments": [{"name": "a"}],
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
    }
    expected = RunSpec.model_validate(minimal).model_dump(mode="json", by_alias=True)
    assert _without_nulls(expected) == _defaulted(SPEC, minimal)


def _defaulted(schema: dict[str, Any], value: Any) -> Any:
    """`value` with the schema's defaults applied as by an API server."""
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
    """`value` without nulls and without the mappings that have no default in the schema."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {
            name: _without_nulls(inner)
            for name, inner in value.items()
            if inner is not None and name not in MAPPINGS
        }
    return value


def test_a_field_that_defaults_to_null_is_nullable():
    revision = SPEC["properties"]["model"]["properties"]["revision"]
    assert revision["nullable"] is True
    assert "default" not in revision


def test_environment_options_preserve_unknown_fields():
    items = SPEC["properties"]["environments"]["items"]
    options = items["properties"]["options"]
    assert options["x-kubernetes-preserve-unknown-fields"] is True
    assert options["type"] == "object"


def _rules():
    """The validation rules of the schema by message: path of the schema, expression, and path of
    the field in the error."""
    return {
        rule["message"]: (path, rule["rule"], path + rule.get("fieldPath", ""))
        for path, schema in nested_schemas(SPEC, "spec")
        for rule in schema.get("x-kubernetes-validations", ())
        if rule["message"] in {one.message for one in RULES}
    }


def test_every_rule_with_a_cel_expression_is_in_the_schema():
    rules = _rules()
    assert set(rules) == {rule.message for rule in RULES if rule.cel}
    for rule in RULES:
        if rule.cel:
            path, cel, field = rules[rule.message]
            expression = re.sub(r"oldSelf\.hasValue\(\) \|\| \((.*)\)$", r"\1", cel)
            assert expression.replace("self", path) == rule.cel.replace("self", "spec")
            assert field == "spec." + rule.reads[0].split(".*")[0]
    without = {rule.check.__name__ for rule in RULES if rule.cel is None}
    assert without == {
        "options_name_no_keys_of_the_store",  # the API server does not know the options
        "environment_names_are_unique",  # the API server checks x-kubernetes-list-map-keys
        "zero_replicas_need_the_packages",  # the API server does not know what a builtin needs
        "hindsight_needs_goals_that_can_be_rewritten",  # nor what it can do
        "workers_run_python",
        "memory_fits_builtin",
        "text_fits_model",
    }


def test_a_rule_is_on_the_innermost_schema_with_all_fields_it_reads():
    rules = {field: (path, cel) for path, cel, field in _rules().values()}
    assert rules["spec.algorithm.kl"] == (
        "spec.algorithm.kl",
        "oldSelf.hasValue() || (self.coefficient > 0.0 || self.estimator == 'k3')",
    )
    assert rules["spec.rollout.actions"][0] == "spec.rollout"
    assert rules["spec.rollout.topP"][0] == "spec"  # it also reads spec.algorithm
    assert rules["spec.warmStart"][0] == "spec"  # warmStart may be absent


def test_a_section_with_rules_has_an_explicit_default():
    kl = SPEC["properties"]["algorithm"]["properties"]["kl"]
    assert kl["default"] == {"coefficient": 0.0, "estimator": "k3"}
    reward = SPEC["properties"]["algorithm"]["properties"]["reward"]
    assert reward["default"] == {}  # no rules on it


def test_sections_of_the_spec_are_atomic_for_server_side_apply():
    """Otherwise managedFields would list every field in every object."""
    assert "x-kubernetes-map-type" not in SPEC
    atomic = {path for path, one in nested_schemas(SPEC, "spec") if "x-kubernetes-map-type" in one}
    assert atomic == {
        "spec.model", "spec.environments[]", "spec.algorithm", "spec.horizon", "spec.warmStart",
        "spec.rollout", "spec.update", "spec.evaluation", "spec.compute", "spec.storage",
        "spec.tracking",
    }  # fmt: skip


def _paths_read(cel):
    """The paths that a CEL expression reads, in the notation of `Rule.reads`."""
    verbs = "map|all|exists_one|startsWith|contains|matches|isSorted|max|sum"
    path = rf"\bself((?:\.(?!(?:{verbs})\()\w+)+)"
    yield from (found.removeprefix(".") for found in re.findall(path, cel))
    for parent, item in re.findall(rf"{path}\.(?:map|all|exists_one)\((\w+),", cel):
        for field in re.findall(rf"\b{item}\.(\w+)", cel):
            yield f"{parent.removeprefix('.')}.*.{field}"


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.cel], ids=lambda rule: rule.message
)
def test_updates_skip_a_rule_if_and_only_if_the_fields_it_reads_are_immutable(rule):
    """Also, `reads` must name every path in the expression: skipping a rule relies on it."""
    for path in _paths_read(rule.cel):
        named = [f"{one}." for one in rule.reads]
        assert any(one.startswith(f"{path}.") or f"{path}.".startswith(one) for one in named)

    _, cel, _ = _rules()[rule.message]
    mutable = any(mutability(one) != "immutable" for one in rule.reads)
    assert cel.startswith("oldSelf.hasValue() || (") != mutable


def test_the_storage_url_on_a_cluster_must_be_s3():
    (rule, *_) = SPEC["properties"]["storage"]["properties"]["url"]["x-kubernetes-validations"]
    assert rule["rule"] == "self.startsWith('s3://')"


def test_the_schema_limits_the_name_to_52_characters():
    root = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "size(self.metadata.name) <= 52" in root["x-kubernetes-validations"][0]["rule"]


def test_kubectl_get_has_the_printer_columns():
    (version,) = definition()["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    assert [column["name"] for column in columns if "priority" not in column] == [
        "State", "Reason", "Horizon", "Iteration", "Success", "Age",
    ]  # fmt: skip
    assert [column["name"] for column in columns if column.get("priority") == 1] == [
        "Ray", "KFP run", "MLflow", "Message",
    ]  # fmt: skip
    assert version["subresources"] == {"status": {}}


def test_a_union_is_rejected_as_not_structural():
    with pytest.raises(TypeError, match="no unions"):
        structural({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {})


def test_the_yaml_text_equals_the_definition():
    assert yaml.safe_load(text()) == json.loads(json.dumps(definition()))


def test_the_crd_in_the_chart_is_up_to_date():
    assert (ROOT / "helm/agentrl/files/crd.yaml").read_text() == text()


def test_the_manifest_reference_in_the_docs_is_up_to_date():
    assert (ROOT / "docs/manifest.md").read_text() == reference()
