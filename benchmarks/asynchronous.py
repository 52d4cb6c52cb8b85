"""Rollout and update at the same time on Ray, beside the two in turns.

    python benchmarks/asynchronous.py

Arms are `rollout.maxStaleness` 0 (in turns), 1 and 2, with one trainer and one sampler, an embedded
Ray, and an environment server in a process of its own that answers after a fixed time. Most tasks
take a few turns and some take many, so that in turns the sampler waits for the last episodes, and
trainer and sampler for each other. The arms alternate; what counts are the iterations after a
warm-up and before the last ones, for which fewer episodes are played ahead.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import click
from report.machine import machine
from workload import models
from workload.latency import NAME, served

from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import IterationProgress, SilentProgressView
from agentrl_components.spec import AgentRLRun, parse
from agentrl_components.stages.before_training import prepare
from agentrl_components.stages.provision import provision
from agentrl_components.stages.train import train
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.tracker import MemoryTracker

BAR = 1.5
STALENESS = (0, 1, 2)
WARM_UP = 3
"""Iterations that are not counted."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every arm does."""

    size: str
    tasks: int
    group: int
    short: int
    long: int
    one_in: int
    reply_tokens: int
    iterations: int
    interrupt: str


class Clock(SilentProgressView):
    """Notes when each iteration ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[float] = []

    def iteration(self, progress: IterationProgress) -> None:
        super().iteration(progress)
        self.ended.append(time.monotonic())


def manifest(settings: Settings, folder: Path, url: str, staleness: int) -> AgentRLRun:
    """The manifest of an arm."""
    iterations = WARM_UP + settings.iterations + max(STALENESS)
    rollout: dict[str, Any] = {
        "tasks": settings.tasks,
        "groupSize": settings.group,
        "maxTokensPerTurn": settings.reply_tokens,
        "maxStaleness": staleness,
        "interrupt": settings.interrupt if staleness else "finish",
        "concurrency": 1024,
    }
    spec = {
        "model": {"source": f"file://{folder}", "context": 4096, "template": "chat"},
        "environments": [{"name": NAME, "url": url}],
        "horizon": {"phases": [{"maxTurns": settings.long, "iterations": iterations}]},
        "rollout": rollout,
        "algorithm": {"importanceSampling": {"mode": "truncate"}},
        "update": {"learningRate": 1e-5, "miniBatch": 32, "checkpointEvery": 1000},
        "evaluation": {"every": 0, "tasks": 1},
        "compute": {
            "ray": "embedded",
            "trainers": {"count": 1},
            "samplers": {"count": 1},
        },
    }
    header = {"apiVersion": "agentrl.dev/v1alpha1", "kind": "AgentRLRun"}
    return parse({**header, "metadata": {"name": "asynchronous"}, "spec": spec})


def measure(run: AgentRLRun) -> dict[str, float]:
    """What the counted iterations of a run took."""
    clock, tracker = Clock(), MemoryTracker()
    with RunContext(run, MemoryStore(), tracker, clock, lambda: None) as context:
        workers = context.workers
        workers.loop.run(provision(run, workers.worlds, context.journal))
        prepare(context)
        train(context, 0)
    last = len(clock.ended) - max(STALENESS)
    seconds = clock.ended[last - 1] - clock.ended[WARM_UP - 1]
    counted = [tracker.recorded[number] for number in range(WARM_UP + 1, last + 1)]
    tokens = sum(metrics["train/tokens"] for metrics in counted)
    waited = sum(metrics["seconds/rollout"] for metrics in counted)
    return {
        "tokens_per_s": tokens / seconds,
        "tokens": tokens,
        "seconds_an_iteration": seconds / len(counted),
        "update_seconds": fmean(metrics["seconds/update"] for metrics in counted),
        "samplers_idle": fmean(metrics["rollout/idle_share"] for metrics in counted),
        "trainers_idle": waited / seconds,
        "queue_depth": fmean(metrics.get("rollout/queue_depth", 0.0) for metrics in counted),
        "staleness": fmean(metrics["train/staleness"] for metrics in counted),
        "staleness_max": max(metrics.get("train/staleness_max", 0.0) for metrics in counted),
        "prefix_hits": fmean(metrics["rollout/prefix_hits"] for metrics in counted),
    }


def compare(settings: Settings, folder: Path, latency_ms: float, rounds: int) -> dict[str, Any]:
    """All arms in turn, and the median over rounds of each arm's ratio to staleness 0."""
    found: dict[int, list[dict[str, float]]] = {staleness: [] for staleness in STALENESS}
    with served(latency_ms, settings.short, settings.long, settings.one_in) as url:
        for _ in range(rounds):
            for staleness in STALENESS:
                measured = measure(manifest(settings, folder, url, staleness))
                found[staleness].append(measured)
                click.echo(f"{latency_ms:g} ms, maxStaleness {staleness}: {measured}")
    ratios = {
        staleness: median(
            one["tokens_per_s"] / base["tokens_per_s"]
            for one, base in zip(rows, found[0], strict=True)
        )
        for staleness, rows in found.items()
    }
    for staleness in STALENESS[1:]:
        ratio = ratios[staleness]
        verdict = "met" if ratio >= BAR else "missed"
        click.echo(f"{latency_ms:g} ms, maxStaleness {staleness}: {ratio:.2f} ({BAR} {verdict})")
    return {"latency_ms": latency_ms, "ratios": ratios, "arms": found}


@click.command()
@click.option("--latency", "latencies", multiple=True, type=float, default=(20.0, 100.0))
@click.option("--rounds", default=3, show_default=True)
@click.option("--size", type=click.Choice(list(models.SIZES)), default="0.36M", show_default=True)
@click.option("--tasks", default=8, show_default=True, help="Groups of an update.")
@click.option("--group", default=8, show_default=True, help="Episodes of a group.")
@click.option("--short", default=4, show_default=True, help="Turns of most tasks.")
@click.option("--long", default=32, show_default=True, help="Turns of the others.")
@click.option("--one-in", default=8, show_default=True, help="One task in so many is long.")
@click.option("--reply-tokens", default=8, show_default=True)
@click.option("--iterations", default=10, show_default=True, help="Counted iterations.")
@click.option(
    "--interrupt",
    type=click.Choice(["finish", "continue", "abort"]),
    default="finish",
    show_default=True,
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(__file__).parent / "results" / "asynchronous.json",
)
def main(latencies: tuple[float, ...], rounds: int, out: Path, **given: Any) -> None:
    """Measure all arms at each latency, print ratios and write JSON."""
    settings = Settings(**given)
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        folder = Path(scratch) / "model"
        folder.mkdir()
        models.make(models.SIZES[settings.size], folder)
        before = machine()
        rows = [compare(settings, folder, latency, rounds) for latency in latencies]
    report = {"machine": before, "settings": asdict(settings), "bar": BAR, "latencies": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
