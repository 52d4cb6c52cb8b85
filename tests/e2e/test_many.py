"""Thirty runs at once; on two cores the pods of most wait their turn."""

from __future__ import annotations

from typing import Any

import pytest
from installed import Installed

pytestmark = pytest.mark.e2e

MANY = 30


def walk(name: str) -> dict[str, Any]:
    """A run that two cores do in half a minute of their own."""
    return {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": name},
        "spec": {
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
            "compute": {"workers": 1, "cpu": "50m", "memory": "600Mi"},
        },
    }


def test_many_runs_at_once_all_succeed_and_are_the_same_run(installed: Installed) -> None:
    names = [f"many-{number:02d}" for number in range(MANY)]
    uids = {name: installed.apply(walk(name)) for name in names}

    def phases() -> dict[str, str]:
        every = installed.get("agentrlruns")["items"]
        return {one["metadata"]["name"]: one.get("status", {}).get("state", "") for one in every}

    def ended() -> bool:
        seen = phases()
        assert "Failed" not in seen.values(), installed.story()
        return all(seen[name] == "Succeeded" for name in names)

    installed.until(f"{MANY} runs have succeeded", ended, 90 * MANY, poll_s=10)
    first, *others = (installed.records(name, uids[name]) for name in names)
    assert len(first) == 3
    assert all(other == first for other in others)
    for name in names:
        assert [run["state"] for run in installed.kfp_runs(uids[name])] == ["SUCCEEDED"]
