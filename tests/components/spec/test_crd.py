from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from agentrl_components.spec import RunSpec
from agentrl_components.spec.crd import definition, spec_schema, structural, text
from agentrl_components.spec.edits import FREE, changes
from agentrl_components.spec.reference import reference
from agentrl_components.spec.rules import RULES

ROOT = Path(__file__).parents[3]
KEYS = {
    "type", "description", "default", "enum", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "pattern", "required", "nullable", "items", "properties",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type",
    "additionalProperties",
}  # fmt: skip

BASE: dict[str, Any] = {
    "model": {"lora": {}, "revision": "main"},
    "environments": [
        {
            "name": "rooms",
            "builtin": "babyai",
            "image": "a/b",
            "url": "http://host:8000",
            "secretEnv": [{"name": "KEY", "secret": "judge", "key": "key"}],
        }
    ],
    "horizon": {"phases": [{"maxTurns": 3, "iterations": 20}], "alarms": [{"rewardDrop": 0.5}]},
    "warmStart": {"algorithm": "sft", "trajectories": "file:///a.jsonl"},
    "evaluation": {"turnSweep": [1, 2]},
    "compute": {
        "tolerations": [{"key": "gpu"}],
        "secretEnv": [{"name": "TOKEN", "secret": "hub", "key": "token"}],
    },
}


def _schemas(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)]
    for name, inner in schema.get("properties", {}).items():
        found += _schemas(inner, f"{path}.{name}")
    if "items" in schema:
        found += _schemas(schema["items"], f"{path}[]")
    return found


def _admits(schema: dict[str, Any], value: Any) -> bool:
    """Whether an API server takes `value` under a structural schema, unknown fields aside."""
    if value is None:
        return bool(schema.get("nullable"))
    kinds: dict[str, Any] = {
        "string": str, "boolean": bool, "array": list, "object": dict, "integer": int,
        "number": (int, float),
    }  # fmt: skip
    kind = schema["type"]
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -float("inf")), schema.get("maximum", float("inf"))
        below = value <= low if schema.get("exclusiveMinimum") else value < low
        above = value >= high if schema.get("exclusiveMaximum") else value > high
        return not below and not above
    size = {"string": "Length", "array": "Items", "object": "Properties"}.get(kind)
    if size and not schema.get(f"min{size}", 0) <= len(value) <= schema.get(f"max{size}", 10**9):
        return False
    if kind == "string":
        return value in schema.get("enum", [value]) and bool(
            re.search(schema.get("pattern", ""), value)
        )
    if kind == "array":
        return all(_admits(schema["items"], item) for item in value)
    if kind == "object" and "properties" in schema:
        known = schema["properties"]
        return all(name in value for name in schema.get("required", [])) and all(
            _admits(known[name], inner) for name, inner in value.items() if name in known
        )
    if kind == "object" and "additionalProperties" in schema:
        return all(_admits(schema["additionalProperties"], inner) for inner in value.values())
    return True


def _values(schema: dict[str, Any]) -> list[Any]:
    """What is worth trying: each type, the bounds, and what lies just beyond them."""
    values: list[Any] = [None, True, 0, 1, -1, 0.5, "", "a", "tiny", [], {}, [1], ["a"], {"a": 1}]
    values += schema.get("enum", [])
    values += ["s3://a/b", "file:///a", "http://a", "hf://a", "ftp://a", "A_B", "a b", "-a"]
    for bound in ("minimum", "maximum"):
        if bound in schema:
            values += [schema[bound], schema[bound] + 1, schema[bound] - 1]
    if "maxLength" in schema:
        values += ["a" * schema["maxLength"], "a" * (schema["maxLength"] + 1)]
    return values


def _placed(path: str, value: Any) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(json.dumps(BASE))
    holder: Any = spec
    *around, last = path.removeprefix("spec.").replace("[]", ".0").split(".")
    for part in around:
        holder = holder[int(part)] if part == "0" else holder.setdefault(part, {})
    holder[int(last) if last == "0" else last] = value
    return spec


SPEC = spec_schema()
FIELDS = _schemas(SPEC, "spec")[1:]


@pytest.mark.parametrize(("path", "schema"), FIELDS, ids=[path for path, _ in FIELDS])
def test_the_api_server_takes_what_the_contract_takes(path, schema):
    for value in _values(schema):
        spec = _placed(path, value)
        try:
            RunSpec.model_validate_json(json.dumps(spec), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            if all(one["type"] == "extra_forbidden" for one in error.errors()):
                continue  # unknown fields are pruned or refused outside the schema
            assert not _admits(SPEC, spec), (path, value)
        else:
            assert _admits(SPEC, spec), (path, value)


def test_the_schema_is_structural():
    root = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, schema in _schemas(root, ""):
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
        for path, schema in _schemas(SPEC, "spec")
        for rule in schema.get("x-kubernetes-validations", ())
        if rule["message"] in {one.says for one in RULES}
    }


def test_the_rules_that_cel_can_say_are_in_the_schema():
    rules = _rules()
    assert set(rules) == {rule.says for rule in RULES if rule.cel}
    for rule in RULES:
        if rule.cel:
            path, cel, field = rules[rule.says]
            assert cel.replace("self", path) == rule.cel.replace("self", "spec")
            assert field == "spec." + rule.reads[0].split(".*")[0]
    without = {rule.check.__name__ for rule in RULES if rule.cel is None}
    assert without == {
        "adapters_are_named_once",
        "a_built_in_environment_is_known",
        "a_secret_has_a_variable_of_its_own",
        "environments_have_names_of_their_own",
    }


def test_a_rule_stands_where_everything_is_that_it_looks_at():
    rules = {field: (path, cel) for path, cel, field in _rules().values()}
    assert rules["spec.algorithm.kl"] == (
        "spec.algorithm.kl",
        "self.coefficient > 0.0 || self.estimator == 'k3'",
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
    owned = {path for path, one in _schemas(SPEC, "spec") if "x-kubernetes-map-type" in one}
    assert owned == {
        "spec.model", "spec.environments[]", "spec.algorithm", "spec.horizon", "spec.warmStart",
        "spec.rollout", "spec.update", "spec.evaluation", "spec.compute", "spec.storage",
        "spec.tracking",
    }  # fmt: skip


LEAVES = [
    (path, schema)
    for path, schema in FIELDS
    if "properties" not in schema and not path.endswith("[]") and path != "spec.environments"
]
"""Fields that hold no others; an environment's count one by one."""


def _locked(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The paths at which an API server refuses an edit, each with all below it."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] == "self == oldSelf":
            yield path
        elif rule["rule"].startswith("self.map(item, item.name) == oldSelf"):
            yield f"{path}[].name"
        elif "oldSelf" in rule["rule"] and "fieldPath" in rule:
            yield path + rule["fieldPath"]
    for name, inner in schema.get("properties", {}).items():
        yield from _locked(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _locked(schema["items"], f"{path}[]")


LOCKED = tuple(_locked(SPEC, "spec"))


def _read(spec: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate_json(json.dumps(spec), strict=True, by_alias=True, by_name=False)


def _edited(path: str, schema: dict[str, Any]) -> Iterator[RunSpec]:
    """Manifests that differ from the usual one at `path` alone."""
    before = _read(BASE)
    for value in [*_values(schema), *KNOWN]:
        try:
            after = _read(_placed(path, value))
        except ValidationError:
            continue
        if after != before:
            yield after


KNOWN = [2, False, {"a": "b"}, [{"maxTurns": 1, "iterations": 1}], "1Gi"]
"""Values that `_values` does not try, for fields that take nothing else."""


@pytest.mark.parametrize(("path", "schema"), LEAVES, ids=[path for path, _ in LEAVES])
def test_the_api_server_fixes_a_field_where_the_stages_do(path, schema):
    """One list for both: what a stage would refuse never gets past the API server, and what the API
    server takes no stage refuses."""
    fixed = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in LOCKED)
    before, edits = _read(BASE), list(_edited(path, schema))
    assert edits, "nothing was tried"
    for after in edits:
        assert bool(list(changes(before, after))) == fixed


def test_every_free_field_is_a_field():
    known = {path.removeprefix("spec.").replace("[]", ".*") for path, _ in FIELDS}
    assert set(FREE) <= known


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
        "Phase", "Horizon", "Iteration", "Success", "Age",
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
