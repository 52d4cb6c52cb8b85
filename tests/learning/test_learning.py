"""Every algorithm learns a small fixed task, from several seeds. Curves are kept in
runs/learning/."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from agentrl_components.spec.load import parse
from agentrl_components.tracker import MemoryTracker
from agentrl_components.view import SilentView
from agentrl_pipelines.local import run_local

CURVES = Path("runs/learning")

ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {
        "name": "ppo",
        "gae": {"level": "turn", "lam": 0.95},
        "critic": {"learningRate": 3e-3},
    },
    "grpo": {"name": "grpo"},
    "dr-grpo": {"name": "grpo", "scaleByStd": False, "normalise": "constant"},
    "rloo": {"name": "rloo"},
    "reinforce++": {"name": "reinforce++"},
    "reinforce++-baseline": {"name": "reinforce++-baseline"},
    "gspo": {"name": "gspo", "clipLow": 0.1, "clipHigh": 0.15, "normalise": "sequence"},
    "gigpo": {"name": "gigpo"},
}


def manifest(algorithm: dict[str, Any], seed: int) -> dict[str, Any]:
    """A corridor, a model of 20 thousand parameters, sixty iterations."""
    return {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "learning"},
        "spec": {
            "seed": seed,
            "model": {
                "context": 256,
                "tiny": {"layers": 2, "hidden": 32, "heads": 2, "kvHeads": 2, "intermediate": 64},
            },
            "environments": [{"name": "corridor", "builtin": "corridor"}],
            "algorithm": {"entropy": 0.05, **algorithm},
            "horizon": {
                "phases": [{"maxTurns": 4, "iterations": 20}, {"maxTurns": 6, "iterations": 40}]
            },
            "rollout": {
                "tasks": 16,
                "groupSize": 8,
                "actions": "admissible",
                "maxTokensPerTurn": 8,
            },
            "update": {"learningRate": 1e-3, "miniBatch": 32, "checkpointEvery": 60},
            "evaluation": {"tasks": 23, "samples": 4},
            "compute": {"workers": 1},
        },
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_learns_the_corridor(name: str, seed: int) -> None:
    root = CURVES / f"{name}-{seed}"
    shutil.rmtree(root, ignore_errors=True)
    run = parse(manifest(ALGORITHMS[name], seed))
    report = run_local(run, root, SilentView(), MemoryTracker())
    heldout = report.heldout
    assert heldout.random is not None
    assert heldout.after is not None
    assert heldout.after.low > heldout.random.high
    assert heldout.after.success >= 0.7
    assert (root / "curve.png").stat().st_size > 0
