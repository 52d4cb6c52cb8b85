"""Every algorithm learns the corridor with several seeds. Writes curves to runs/learning/."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripted_engine import ScriptedEngine

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.reporting.schema import Heldout
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.spec.parsing.load import parse
from agentrl_components.tracking.tracker import MemoryTracker
from agentrl_components.warmstart.conversations import conversation_line
from agentrl_envs.env import Task
from agentrl_envs.environments.corridor import VERBS, CorridorTasks
from agentrl_envs.world import LocalWorld
from agentrl_pipelines.local.run import run_local

CURVES = Path("runs/learning")
FURTHER = [pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2)]
SEEDS = pytest.mark.parametrize("seed", [0, *FURTHER])

ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {
        "name": "ppo",
        "gae": {"level": "turn", "lam": 0.95},
        "critic": {"learningRate": 3e-3},
    },
    "ppo-token": {
        "name": "ppo",
        "gae": {"level": "token", "lam": 0.95},
        "critic": {"learningRate": 3e-3},
    },
    "grpo": {"name": "grpo"},
    "dapo": {
        "name": "grpo",
        "clipLow": 0.2,
        "clipHigh": 0.28,
        "normalise": "token",
        "dropZeroVariance": True,
        "refillRounds": 2,
    },
    "dr-grpo": {"name": "grpo", "scaleByStd": False, "normalise": "constant"},
    "rloo": {"name": "rloo"},
    "reinforce++": {"name": "reinforce++"},
    "reinforce++-baseline": {"name": "reinforce++-baseline"},
    "gspo": {"name": "gspo", "clipLow": 0.1, "clipHigh": 0.15, "normalise": "sequence"},
    "gigpo": {"name": "gigpo"},
}


def manifest(algorithm: dict[str, Any], seed: int) -> dict[str, Any]:
    """A run on the corridor: 20 thousand parameters, 60 iterations."""
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
@SEEDS
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithm_learns_the_corridor(name: str, seed: int) -> None:
    root = CURVES / f"{name}-{seed}"
    shutil.rmtree(root, ignore_errors=True)
    run = parse(manifest(ALGORITHMS[name], seed))
    report = run_local(run, root, SilentProgressView(), MemoryTracker())
    heldout = report.heldout
    assert heldout.random is not None
    assert heldout.after is not None
    assert heldout.after.low > heldout.random.high
    assert heldout.after.success >= 0.7
    assert (root / "curve.png").stat().st_size > 0


def solution(task: Task) -> list[str]:
    """The shortest sequence of actions that solves a corridor."""
    payload = task.payload
    walk = (
        payload["start"] if payload["side"] == "left" else payload["cells"] - 1 - payload["start"]
    )
    return [payload["side"]] * walk + [VERBS[payload["colour"]]]


def demonstrations(count: int) -> str:
    """Solved corridors of the training split in JSON Lines."""
    tasks = CorridorTasks()
    dialogue = PlainDialogue(word_tokenizer(tasks.vocabulary()).get_vocab())
    rules = Rules(
        max_turns=6,
        context=256,
        max_tokens_per_turn=8,
        temperature=1.0,
        top_p=1.0,
        admissible=False,
        seed=0,
        purpose="demonstration",
    )
    rollout = TokenRollout({"corridor": LocalWorld(tasks)}, dialogue, 0, 1)

    async def demonstration(index: int) -> str:
        task = tasks.task("train", index)
        replies = [(*dialogue.encode_action(word), *dialogue.stop) for word in solution(task)]
        job = Job(
            environment="corridor",
            instructions=tasks.instructions(),
            task=task,
            group=index,
            sample=0,
            iteration=-1,
        )
        (episode,) = await rollout.play([job], rules, ScriptedEngine(replies))
        assert episode.success
        return conversation_line(episode, tasks.instructions())

    async def all_lines() -> list[str]:
        return [await demonstration(index) for index in range(count)]

    return "\n".join(asyncio.run(all_lines()))


def warm_start(
    folder: str, algorithm: str, seed: int, warm: dict[str, Any], model: Path | None = None
) -> Heldout:
    """Held-out success before and after a warm start and one iteration, the minimum of a run.
    `folder` is the name of its own: tests run at the same time."""
    root = CURVES / f"{folder}-{seed}"
    shutil.rmtree(root, ignore_errors=True)
    document = manifest({"name": "grpo"}, seed)
    document["spec"]["warmStart"] = {"algorithm": algorithm, **warm}
    document["spec"]["horizon"]["phases"] = [{"maxTurns": 6, "iterations": 1}]
    if model is not None:
        source = f"file://{model.absolute()}"
        document["spec"]["model"] = {"source": source, "context": 256, "template": "plain"}
    return run_local(parse(document), root, SilentProgressView(), MemoryTracker()).heldout


@pytest.mark.slow
@SEEDS
def test_supervised_fine_tuning_generalizes_to_held_out_corridors(
    seed: int, tmp_path: Path
) -> None:
    lines = tmp_path / "solved.jsonl"
    lines.write_text(demonstrations(CorridorTasks().size("train")))
    found = warm_start("sft", "sft", seed, {"trajectories": f"file://{lines}", "epochs": 20})
    assert found.random is not None
    assert found.before is not None
    assert found.before.low > found.random.high
    assert found.before.success >= 0.9


@pytest.mark.slow
@SEEDS
def test_filtered_imitation_improves_a_model_trained_on_few_demonstrations(
    seed: int, tmp_path: Path
) -> None:
    """Like AgentEvol (arXiv 2406.04151): imitate a few demonstrations, then own successes.

    From random weights there are too few successes, and some seeds do not improve.
    """
    lines = tmp_path / "solved.jsonl"
    lines.write_text(demonstrations(16))
    few = {"trajectories": f"file://{lines}", "epochs": 16, "batch": 8}
    first = warm_start("sft-few", "sft", seed, few)
    model = tmp_path / "model"
    shutil.copytree(CURVES / f"sft-few-{seed}" / "store" / "checkpoints" / "000000", model)
    rounds = {"maxTurns": 6, "episodes": 256, "rounds": 4, "epochs": 2, "learningRate": 2e-3}
    name = "filtered-imitation"
    found = warm_start(name, name, seed, rounds, model)
    assert first.before is not None
    assert found.before is not None
    assert found.before.low > first.before.high
    assert found.before.success >= 0.9
