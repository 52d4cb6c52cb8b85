"""Whole iterations of AgentRL and TRL: a rollout phase, then an update on its episodes.

    python benchmarks/iteration.py --out benchmarks/results/iteration.json

Both use the environment of `rollout.py`, with the same weights, tokenizer and cores, and alternate
after a warm-up each. AgentRL's iteration is the product's rollout on all workers, and
`Learner.update`. TRL's is `GRPOTrainer._generate`, and `GRPOTrainer.training_step` with the
optimizer's step on episodes of the lengths that it played; resets, scoring and padding are left
out, and of several micro-batch sizes the best one counts.

Columns `tok/s`: tokens that the agent sampled, over the seconds of the whole iteration; `s`: those
of rollout and update. All are medians of the repeats.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from peer import process as peer
from report.machine import machine
from rich.console import Console
from rich.table import Table
from workload import models, room, workers
from workload.room import Load

from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """Measurements of one iteration."""

    rollout: float
    """Seconds."""
    update: float
    """Seconds."""
    sampled: int
    """Tokens sampled by the agent."""

    @property
    def rate(self) -> float:
        """Sampled tokens per second of the whole iteration."""
        return self.sampled / (self.rollout + self.update)


@click.command()
@click.option("--size", default="2.45M", show_default=True, type=click.Choice(list(models.SIZES)))
@click.option("--latencies", default="20", show_default=True, help="In milliseconds.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--cores", default=2, show_default=True)
@click.option("--micro", default="8,64", show_default=True, help="TRL's micro-batch sizes.")
@click.option("--out", default="benchmarks/results/iteration.json", show_default=True)
@peer.option
def main(
    size: str, latencies: str, repeats: int, cores: int, micro: str, out: str, peer_python: str
) -> None:
    """Compare whole iterations with TRL: print a table and write JSON."""
    peer.require(peer_python)
    micros = [int(one) for one in micro.split(",")]
    results: dict[float, dict[str, list[Iteration]]] = {}
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        folder = Path(scratch)
        models.make(models.SIZES[size], folder)
        update = {"miniBatch": 64, "microBatchTokens": 2048, "learningRate": 1e-4}
        algorithm = {"importanceSampling": {"mode": "off"}}  # as in the TRL setup
        with (
            workers.opened(folder, cores, update=update, algorithm=algorithm) as ours,
            peer.started(peer_python, folder, cores) as trl,
        ):
            versions = trl.ask(do="versions")
            for latency in map(float, latencies.split(",")):
                load = Load(rollouts=64, group=8, turns=8, turn_tokens=32, latency_ms=latency)
                results[latency] = measure(ours, trl, load, micros, repeats)
    Console().print(table(size, results))
    written = {
        "machine": machine(),
        "peer": versions,
        "model": size,
        "results": [
            {"latency_ms": latency, "ratio": ratio(found)}
            | {side: [asdict(one) for one in some] for side, some in found.items()}
            for latency, found in results.items()
        ],
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def measure(
    ours: workers.Workers, trl: peer.Peer, load: Load, micros: Sequence[int], repeats: int
) -> dict[str, list[Iteration]]:
    """Iterations of both sides, alternately; the first of each is not counted."""
    found: dict[str, list[Iteration]] = {"agentrl": [], "trl": []}
    for repeat in range(repeats + 1):
        found["agentrl"].append(our_iteration(ours, load, repeat))
        answer = trl.ask(do="iteration", micros=list(micros), **asdict(load))
        found["trl"].append(
            Iteration(
                rollout=answer["seconds"],
                update=min(answer["updates"].values()),
                sampled=answer["sampled"],
            )
        )
        click.echo(f"{load.latency_ms:g} ms: {found['agentrl'][-1]}, TRL {found['trl'][-1]}")
    return {side: some[1:] for side, some in found.items()}


def our_iteration(ours: workers.Workers, load: Load, number: int) -> Iteration:
    """An iteration of AgentRL. Every second episode succeeds, so that no group is left out."""
    began = time.perf_counter()
    played = room.play_on(ours.pool, load, number)
    rollout = time.perf_counter() - began
    rated = [with_reward(episode, float(place % 2)) for place, episode in enumerate(played)]
    began = time.perf_counter()
    updated = ours.learner.update(rated, number, 1e-4)
    seconds = time.perf_counter() - began
    assert updated.steps == 1
    sampled = sum(episode.num_sampled for episode in played)
    return Iteration(rollout=rollout, update=seconds, sampled=sampled)


def with_reward(episode: Trajectory, reward: float) -> Trajectory:
    """The episode with a reward for its last turn."""
    *earlier, last = episode.turns
    turns = (*earlier, replace(last, reward=reward))
    return replace(episode, turns=turns, score=reward, raw_score=reward, success=bool(reward))


def rate(some: Sequence[Iteration]) -> float:
    """Median of sampled tokens per second."""
    return statistics.median(one.rate for one in some)


def ratio(found: dict[str, list[Iteration]]) -> float:
    """AgentRL's tokens per second divided by TRL's."""
    return rate(found["agentrl"]) / rate(found["trl"])


def table(size: str, results: dict[float, dict[str, list[Iteration]]]) -> Table:
    """Table of the results for the terminal."""
    shown = Table(title=f"whole iterations at {size} parameters, AgentRL and TRL")
    for column in ("latency ms", "AgentRL tok/s", "TRL tok/s", "ratio", "AgentRL s", "TRL s"):
        shown.add_column(column, justify="right")
    for latency, found in results.items():
        shown.add_row(
            f"{latency:g}",
            *(f"{rate(found[side]):,.0f}" for side in ("agentrl", "trl")),
            f"{ratio(found):.1f}",
            *(
                f"{statistics.median(one.rollout for one in found[side]):.1f} + "
                f"{statistics.median(one.update for one in found[side]):.1f}"
                for side in ("agentrl", "trl")
            ),
        )
    return shown


if __name__ == "__main__":
    main()
