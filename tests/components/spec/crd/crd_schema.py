"""The OpenAPI schema of the AgentRLRun CRD, its fields, and manifests that set one field."""

from __future__ import annotations

import json
from typing import Any

from agentrl_components.spec.crd.definition import spec_schema

BASE: dict[str, Any] = {
    "model": {"lora": {}, "revision": "main"},
    "environments": [
        {
            "name": "rooms",
            "builtin": "babyai",
            "image": "a/b",
            "url": "http://host:8000",
            "secretEnv": [{"name": "KEY", "secret": "judge", "key": "key"}],
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            "volumes": [{"claim": "wiki", "path": "/wiki"}],
            "tolerations": [{"key": "cpu"}],
        }
    ],
    "horizon": {"phases": [{"maxTurns": 3, "iterations": 20}], "alarms": [{"rewardDrop": 0.5}]},
    "warmStart": {"algorithm": "sft", "trajectories": "file:///a.jsonl"},
    "evaluation": {"turnSweep": [1, 2]},
    "compute": {
        "tolerations": [{"key": "gpu"}],
        "env": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "secretEnv": [{"name": "TOKEN", "secret": "hub", "key": "token"}],
        "volumes": [{"claim": "models", "path": "/models"}],
    },
}


def nested_schemas(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """`schema` and all nested_schemas nested in it, with their paths."""
    found = [(path, schema)]
    for name, inner in schema.get("properties", {}).items():
        found += nested_schemas(inner, f"{path}.{name}")
    if "items" in schema:
        found += nested_schemas(schema["items"], f"{path}[]")
    return found


def candidate_values(schema: dict[str, Any]) -> list[Any]:
    """Values to test: one or more of each type, the bounds, and values just outside the bounds."""
    values: list[Any] = [None, True, 0, 1, -1, 0.5, "", "a", "tiny", [], {}, [1], ["a"], {"a": 1}]
    values += schema.get("enum", [])
    values += ["s3://a/b", "file:///a", "http://a", "hf://a", "ftp://a", "A_B", "a b", "-a"]
    for bound in ("minimum", "maximum"):
        if bound in schema:
            values += [schema[bound], schema[bound] + 1, schema[bound] - 1]
    if "maxLength" in schema:
        values += ["a" * schema["maxLength"], "a" * (schema["maxLength"] + 1)]
    return values


def with_value(path: str, value: Any) -> dict[str, Any]:
    """`BASE` with the field at `path` set to `value`."""
    spec: dict[str, Any] = json.loads(json.dumps(BASE))
    holder: Any = spec
    *parents, last = path.removeprefix("spec.").replace("[]", ".0").split(".")
    for part in parents:
        holder = holder[int(part)] if part == "0" else holder.setdefault(part, {})
    holder[int(last) if last == "0" else last] = value
    return spec


SPEC = spec_schema()
FIELDS = nested_schemas(SPEC, "spec")[1:]
