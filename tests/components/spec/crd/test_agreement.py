"""An API server takes, and fixes, what the contract does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from crd_schema import BASE, FIELDS, SPEC, placed, values
from pydantic import ValidationError

from agentrl_components.spec import RunSpec
from agentrl_components.spec.mutable import MUTABLE, immutable_changes


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


@pytest.mark.parametrize(("path", "schema"), FIELDS, ids=[path for path, _ in FIELDS])
def test_the_api_server_takes_what_the_contract_takes(path, schema):
    for value in values(schema):
        spec = placed(path, value)
        try:
            RunSpec.model_validate_json(json.dumps(spec), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            if all(one["type"] == "extra_forbidden" for one in error.errors()):
                continue  # unknown fields are pruned or refused outside the schema
            assert not _admits(SPEC, spec), (path, value)
        else:
            assert _admits(SPEC, spec), (path, value)


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
        elif "oldSelf." in rule["rule"] and "optionalOldSelf" not in rule and "fieldPath" in rule:
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
    for value in [*values(schema), *KNOWN]:
        try:
            after = _read(placed(path, value))
        except ValidationError:
            continue
        if after != before:
            yield after


KNOWN = [2, False, {"a": "b"}, [{"maxTurns": 1, "iterations": 1}], "1Gi"]
"""Values that `values` does not try, for fields that take nothing else."""


@pytest.mark.parametrize(("path", "schema"), LEAVES, ids=[path for path, _ in LEAVES])
def test_the_api_server_fixes_a_field_where_the_stages_do(path, schema):
    """One list for both: what a stage would refuse never gets past the API server, and what the API
    server takes no stage refuses."""
    fixed = any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in LOCKED)
    before, edits = _read(BASE), list(_edited(path, schema))
    assert edits, "nothing was tried"
    for after in edits:
        assert bool(list(immutable_changes(before, after))) == fixed


def test_every_free_field_is_a_field():
    known = {path.removeprefix("spec.").replace("[]", ".*") for path, _ in FIELDS}
    assert set(MUTABLE) <= known
