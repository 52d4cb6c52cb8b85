"""The schema of the CRD accepts the same manifests, and locks the same fields, as `RunSpec`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from crd_schema import BASE, FIELDS, SPEC, candidate_values, with_value
from pydantic import ValidationError

from agentrl_components.spec import RunSpec
from agentrl_components.spec.mutable import LASTING, MUTABLE, immutable_changes


def _schema_accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether an API server accepts `value` under a structural schema. Ignores unknown fields."""
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
        return all(_schema_accepts(schema["items"], item) for item in value)
    if kind == "object" and "properties" in schema:
        known = schema["properties"]
        return all(name in value for name in schema.get("required", [])) and all(
            _schema_accepts(known[name], inner) for name, inner in value.items() if name in known
        )
    if kind == "object" and "additionalProperties" in schema:
        return all(
            _schema_accepts(schema["additionalProperties"], inner) for inner in value.values()
        )
    return True


@pytest.mark.parametrize(("path", "schema"), FIELDS, ids=[path for path, _ in FIELDS])
def test_the_schema_accepts_a_value_if_and_only_if_the_model_does(path, schema):
    for value in candidate_values(schema):
        spec = with_value(path, value)
        try:
            RunSpec.model_validate_json(json.dumps(spec), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            # A list whose only item is invalid counts as too short, too.
            direct = [
                one for one in error.errors() if one["type"] != "too_short" or not one["input"]
            ]
            if all(one["type"] == "extra_forbidden" for one in direct):
                continue  # unknown fields are pruned or rejected outside the schema
            assert not _schema_accepts(SPEC, spec), (path, value)
        else:
            assert _schema_accepts(SPEC, spec), (path, value)


LEAVES = [
    (path, schema)
    for path, schema in FIELDS
    if "properties" not in schema and not path.endswith("[]") and path != "spec.environments"
]
"""Fields without nested fields, and lists; `environments` is tested by its fields."""


def _immutable_paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The paths that the schema's transition rules make immutable, with all nested fields. Of
    `BASE`, which has no `compute.ray`, this includes fields that may not be added."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] == "self == oldSelf":
            yield path
        elif rule["rule"].startswith("self.map(item, item.name) == oldSelf"):
            yield f"{path}[].name"
        elif "oldSelf." in rule["rule"] and "optionalOldSelf" not in rule and "fieldPath" in rule:
            yield path + rule["fieldPath"]
    for name, inner in schema.get("properties", {}).items():
        yield from _immutable_paths(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _immutable_paths(schema["items"], f"{path}[]")


IMMUTABLE = tuple(_immutable_paths(SPEC, "spec"))


def _read(spec: dict[str, Any]) -> RunSpec:
    return RunSpec.model_validate_json(json.dumps(spec), strict=True, by_alias=True, by_name=False)


def _edited(path: str, schema: dict[str, Any]) -> Iterator[RunSpec]:
    """Valid manifests that differ from `BASE` only at `path`."""
    before = _read(BASE)
    for value in [*candidate_values(schema), *MORE_VALUES]:
        try:
            after = _read(with_value(path, value))
        except ValidationError:
            continue
        if after != before:
            yield after


MORE_VALUES = [2, False, {"a": "b"}, [{"maxTurns": 1, "iterations": 1}], "1Gi", "embedded", "/data"]
"""Values for fields that accept none of `candidate_values`."""


@pytest.mark.parametrize(("path", "schema"), LEAVES, ids=[path for path, _ in LEAVES])
def test_the_schema_and_the_stages_make_the_same_fields_immutable(path, schema):
    """A stage rejects no edit that the API server accepted, and would accept none it rejected."""
    immutable = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in IMMUTABLE)
    before, edits = _read(BASE), list(_edited(path, schema))
    assert edits, "no valid edit was found"
    for after in edits:
        assert bool(list(immutable_changes(before, after))) == immutable


def test_every_mutable_path_is_a_field_of_the_schema():
    known = {path.removeprefix("spec.").replace("[]", ".*") for path, _ in FIELDS}
    assert {*MUTABLE, *LASTING} <= known
