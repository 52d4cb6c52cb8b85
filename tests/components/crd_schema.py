"""The schema of the run's definition: its fields, and manifests that try each."""

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


def schemas(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)]
    for name, inner in schema.get("properties", {}).items():
        found += schemas(inner, f"{path}.{name}")
    if "items" in schema:
        found += schemas(schema["items"], f"{path}[]")
    return found


def values(schema: dict[str, Any]) -> list[Any]:
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


def placed(path: str, value: Any) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(json.dumps(BASE))
    holder: Any = spec
    *around, last = path.removeprefix("spec.").replace("[]", ".0").split(".")
    for part in around:
        holder = holder[int(part)] if part == "0" else holder.setdefault(part, {})
    holder[int(last) if last == "0" else last] = value
    return spec


SPEC = spec_schema()
FIELDS = schemas(SPEC, "spec")[1:]
