"""Random manifests that are slightly wrong, to compare the API server's verdict with ours."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from agentrl_components.spec.crd.definition import spec_schema

BASES: tuple[dict[str, Any], ...] = (
    {
        "environments": [{"name": "rooms", "builtin": "babyai"}],
        "horizon": {"phases": [{"maxTurns": 3, "iterations": 20}]},
    },
    {
        "model": {"lora": {}, "source": "hf://org/name", "revision": "main"},
        "environments": [
            {
                "name": "rooms",
                "image": "org/rooms:1",
                "scaling": {"maxReplicas": 4},
                "tokenEnv": "TOKEN",
                "secretEnv": [{"name": "KEY", "secret": "judge", "key": "key"}],
                "volumes": [{"claim": "wiki", "path": "/data"}],
            },
            {"name": "walk", "url": "http://host:8000"},
        ],
        "algorithm": {"name": "ppo", "gae": {}, "critic": {}, "kl": {"coefficient": 0.1}},
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 20}, {"maxTurns": 4, "iterations": 20}],
            "advance": "success",
            "alarms": [{"rewardDrop": 0.5}],
        },
        "warmStart": {"algorithm": "sft", "trajectories": "s3://runs/a.jsonl"},
        "evaluation": {"turnSweep": [1, 2]},
        "compute": {
            "tolerations": [{"key": "gpu"}],
            "secretEnv": [{"name": "TOKEN", "secret": "hub", "key": "token"}],
            "nodeSelector": {"zone": "a"},
        },
        "storage": {"url": "s3://runs/a", "endpoint": "minio:9000"},
        "tracking": {"uri": "http://mlflow:5000"},
    },
)
"""Valid manifests' `spec`, one with few fields and one with many."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 1.0, 0.0, 2.5, 1e-9, 1e300, 2**31, 2**53, 2**63, 2**64,
    "", "a", "1", "A_B", "a b", "a\n", "ä", "-a", "a" * 600, "off", "null", "tiny", "1Gi", "500m",
    "s3://runs/a", "s3://B/x", "s3://a..b/c", "s3://1.2.3.4/a", "s3://ab/c", "file:///a", "file://a",
    "s3://runs/a?", "s3://runs/#", "s3://runs/../a", "s3://runs/a..b/.c", "s3://runs/a b//c/",
    "a/b", "a/b/c", [{"value": "a"}], [{"operator": "Exists", "value": "a"}], {"a/b/c": "x"},
    {"example.org/pool": "x"}, "0", "0.5Gi", "0Gi", "registry:5000/team/image:1", "my image",
    "hf://org/name", "models:/a/1", "http://h", "https://h:1/x", "http://h:70000", "http://[::1]:1",
    "http://[::1:5000", "http://[::::]", "http://me:pw@h", "h:1", "h:99999", "HTTP://H",
    "http://h h",
    [], {}, [1], ["a"], ["a", "a"], [None], {"a": 1}, {"a": None}, [{}], [{"name": "a"}],
    [{"name": "A-B", "secret": "s", "key": "k"}], [{"name": "PORT", "secret": "s", "key": "k"}],
    [{"name": "A", "secret": "s", "key": "k"}, {"name": "A", "secret": "s", "key": "k"}],
    [{"claim": "a", "path": "/a"}, {"claim": "a", "path": "/b"}],
    [{"claim": "a", "path": "/tmp/a"}],
)  # fmt: skip
"""Values that a mutant puts anywhere."""


def mutants(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` manifests with one or two random changes each. Equal seeds give equal manifests."""
    rng = random.Random(seed)
    paths = list(_paths(spec_schema(), ()))
    for number in range(count):
        spec = copy.deepcopy(rng.choice(BASES))
        for _ in range(rng.choice((1, 1, 2))):
            path, schema = rng.choice(paths)
            _change(spec, path, _value(rng, schema), rng)
        yield {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": f"mutant-{number}", "namespace": "default"},
            "spec": spec,
        }


def _paths(
    schema: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every field below `path` with its schema; `*` stands for an item of a list."""
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name), inner
        yield from _paths(inner, (*path, name))
    if "items" in schema:
        yield (*path, "*"), schema["items"]
        yield from _paths(schema["items"], (*path, "*"))


def _value(rng: random.Random, schema: dict[str, Any]) -> Any:
    """A value near the bounds of the field, or any value."""
    near = [schema[bound] for bound in ("minimum", "maximum", "default") if bound in schema]
    near += [value + step for value in near if isinstance(value, int | float) for step in (1, -1)]
    near += [int(value) for value in near if isinstance(value, float) and abs(value) < 1e9]
    near += [float(value) for value in near if isinstance(value, int)]
    near += schema.get("enum", [])
    if "maxLength" in schema:
        near += ["a" * schema["maxLength"], "a" * (schema["maxLength"] + 1)]
    return copy.deepcopy(rng.choice(near) if near and rng.random() < 0.5 else rng.choice(VALUES))


def _change(spec: dict[str, Any], path: tuple[str, ...], value: Any, rng: random.Random) -> None:
    """Put `value` at `path`, or delete what is there. Does nothing if there is no such place."""
    holder: Any = spec
    for part in path[:-1]:
        if part == "*":
            if not isinstance(holder, list) or not holder:
                return
            holder = rng.choice(holder)
        elif isinstance(holder, dict):
            holder = holder.setdefault(part, {})
        else:
            return
    last = path[-1]
    if last == "*" and isinstance(holder, list):
        holder.append(value)
    elif isinstance(holder, dict):
        if rng.random() < 0.1:
            holder.pop(last, None)
        else:
            holder[last] = value
