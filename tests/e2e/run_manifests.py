"""Manifests of the runs that the tests on a cluster create."""

from __future__ import annotations

from typing import Any

import yaml
from installed import ROOT

RUNS = (
    "calm",
    "storm",
    "pause",
    "gone",
    "swept",
    "search",
    "web",
    "ray",
    "boxed",
    "load-",
    "bad",
    "quota",
)
"""Prefixes of the names of runs that these tests create."""


def manifest(name: str, **changes: Any) -> dict[str, Any]:
    """`examples/babyai.yaml`, shortened to a few minutes on two cores.

    In `changes`, lists and scalars replace those of the example, and mappings are merged.
    """
    example: dict[str, Any] = yaml.safe_load((ROOT / "examples/babyai.yaml").read_text())
    example["metadata"] = {"name": name}
    short: dict[str, Any] = {
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 6}, {"maxTurns": 5, "iterations": 10}],
            "alarms": [],
        },
        "evaluation": {"tasks": 200, "maxTurns": 8},
        "compute": {"workers": 1, "cpu": "200m", "memory": "1500Mi"},
        "rollout": {"maxStaleness": 1},
        "algorithm": {"importanceSampling": {}},
        "update": {"checkpointEvery": 5},
    }
    merge(example["spec"], short)
    merge(example["spec"], changes)
    return example


def tiny_manifest(name: str, **changes: Any) -> dict[str, Any]:
    """A run on the corridor environment that takes half a minute of CPU time.

    `changes` are applied as in `manifest`.
    """
    spec: dict[str, Any] = {
        "model": {
            "source": "tiny",
            "context": 64,
            "tiny": {"layers": 1, "hidden": 32, "heads": 2, "kvHeads": 1, "intermediate": 32},
        },
        "environments": [{"name": "corridor", "builtin": "corridor", "replicas": 0}],
        "horizon": {"phases": [{"maxTurns": 4, "iterations": 3}]},
        "rollout": {
            "tasks": 6,
            "groupSize": 4,
            "actions": "admissible",
            "maxTokensPerTurn": 4,
        },
        "update": {"miniBatch": 8, "microBatchTokens": 256},
        "evaluation": {"tasks": 12},
        "compute": {"workers": 1, "cpu": "50m", "memory": "800Mi"},
    }
    merge(spec, changes)
    return {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": name},
        "spec": spec,
    }


def search_manifest(name: str) -> dict[str, Any]:
    """`examples/search.yaml`, shortened to two iterations, whose searches another pod serves."""
    example: dict[str, Any] = yaml.safe_load((ROOT / "examples/search.yaml").read_text())
    example["metadata"] = {"name": name}
    del example["spec"]["warmStart"]
    short: dict[str, Any] = {
        "model": tiny_manifest(name)["spec"]["model"] | {"context": 512},
        "horizon": {"phases": [{"maxTurns": 4, "iterations": 2}]},
        "rollout": {"tasks": 6, "groupSize": 4},
        "update": {"miniBatch": 8},
        "evaluation": {"tasks": 12},
        "compute": {"workers": 1, "cpu": "50m", "memory": "900Mi"},
    }
    merge(example["spec"], short)
    example["spec"]["environments"][0]["scaling"] = {"maxReplicas": 2, "drainS": 5}
    return example


def web_manifest(name: str) -> dict[str, Any]:
    """A run of one iteration on the sites of environment `web`, in Chromium in another pod."""
    options = {"text": "terse", "max_clicks": 1, "categories": ["shopping"], "turn_limit": 3}
    return tiny_manifest(
        name,
        model={"context": 2048},
        environments=[{"name": "web", "builtin": "web", "options": options, "cpu": "100m"}],
        horizon={"phases": [{"maxTurns": 3, "iterations": 1}]},
        rollout={"tasks": 2, "groupSize": 2, "maxTokensPerTurn": 12},
        update={"microBatchTokens": 4096},
        evaluation={"tasks": 4},
        compute={"memory": "1200Mi"},
    )


def merge(spec: dict[str, Any], changes: dict[str, Any]) -> None:
    """Merge mappings of the first level into `spec`; replace everything else."""
    for part, change in changes.items():
        known = spec.get(part)
        both = isinstance(known, dict) and isinstance(change, dict)
        spec[part] = {**known, **change} if both else change
