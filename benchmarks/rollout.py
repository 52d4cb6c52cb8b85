"""Rollout throughput of AgentRL and TRL at several environment latencies.

    python benchmarks/rollout.py --out benchmarks/results/rollout.json
    python benchmarks/rollout.py --quick

Both use the same environment, weights and tokenizer, and alternate on the same number of cores:
TRL with that many threads, AgentRL with that many worker processes of one thread. Only the rollout
phase is timed, for TRL `GRPOTrainer._generate` on its built-in multi-turn path
(`environment_factory`), after one warm-up phase each. A random model sometimes ends a reply early,
so the sampled tokens are counted. TRL does not execute the last action of an episode: it takes one
environment step fewer per episode and waits for one latency less.

Columns:

- `tok/s`: tokens sampled by the agent per second, median of the repeats.
- `steps/s`: environment steps per second, median of the repeats.
- `ratio`: AgentRL's median of tok/s divided by TRL's.
- `range`: lowest and highest ratio of the paired repeats.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from peer import process as peer
from report.machine import machine
from rich.console import Console
from rich.table import Table
from workload import models, room, workers
from workload.room import Load

SMALLER = {"24M": (32, 4, 16)}
"""Rollouts, turns and tokens per turn of models for which the default load takes too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Measurements of one rollout phase."""

    seconds: float
    sampled: int
    """Tokens sampled by the agent."""
    tokens: int
    """Tokens after the prompt, including observations."""
    env_steps: int

    @property
    def rate(self) -> float:
        """Sampled tokens per second."""
        return self.sampled / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Results of one model at one latency."""

    model: str
    parameters: int
    load: Load
    ours: tuple[Phase, ...]
    trl: tuple[Phase, ...]

    def ratios(self) -> list[float]:
        """Ratio of tok/s for each repeat."""
        return [a.rate / b.rate for a, b in zip(self.ours, self.trl, strict=True)]

    def ratio(self) -> float | None:
        """Ratio of the medians of tok/s, or None without TRL."""
        return rate(self.ours) / rate(self.trl) if self.trl else None


@click.command()
@click.option("--sizes", default=",".join(models.SIZES), show_default=True)
@click.option(
    "--latencies",
    default="0,20,100",
    show_default=True,
    help="Environment latencies in milliseconds.",
)
@click.option("--repeats", default=3, show_default=True)
@click.option(
    "--cores", default=2, show_default=True, help="Threads of TRL and workers of AgentRL."
)
@click.option("--quick", is_flag=True, help="Small load, 2 repeats, latencies 0 and 20 ms.")
@click.option("--no-peer", is_flag=True, help="Measure AgentRL only.")
@click.option("--out", default="benchmarks/results/rollout.json", show_default=True)
@peer.option
def main(
    sizes: str,
    latencies: str,
    repeats: int,
    cores: int,
    quick: bool,
    no_peer: bool,
    out: str,
    peer_python: str,
) -> None:
    """Compare rollout throughput with TRL: print a table and write JSON."""
    if not no_peer:
        peer.require(peer_python)
    if quick:
        latencies, repeats = "0,20", 2
    results: list[Result] = []
    versions: dict[str, Any] = {}
    for name in sizes.split(","):
        load = SMALLER["24M"] if quick else SMALLER.get(name, (64, 8, 32))
        with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
            folder = Path(scratch)
            parameters = models.make(models.SIZES[name], folder)
            with (
                workers.opened(folder, cores) as ours,
                peer.started_if(not no_peer, peer_python, folder, cores) as trl,
            ):
                if trl is not None:
                    versions = trl.ask(do="versions")
                for latency in map(float, latencies.split(",")):
                    loaded = Load(
                        rollouts=load[0],
                        group=8,
                        turns=load[1],
                        turn_tokens=load[2],
                        latency_ms=latency,
                    )
                    result = measure(ours, trl, name, parameters, loaded, repeats)
                    results.append(result)
                    click.echo(summary(result))
    Console().print(table(results))
    write(Path(out), results, versions)


def measure(
    ours: workers.Workers,
    trl: peer.Peer | None,
    name: str,
    parameters: int,
    load: Load,
    repeats: int,
) -> Result:
    """Measure AgentRL and TRL alternately, after one warm-up phase each."""
    warm = Load(**asdict(load) | {"latency_ms": 0.0})
    play_ours(ours, warm, -1)
    if trl is not None:
        play_trl(trl, warm)
    phases, others = [], []
    for repeat in range(repeats):
        phases.append(play_ours(ours, load, repeat))
        if trl is not None:
            others.append(play_trl(trl, load))
    return Result(
        model=name, parameters=parameters, load=load, ours=tuple(phases), trl=tuple(others)
    )


def play_ours(ours: workers.Workers, load: Load, iteration: int) -> Phase:
    """One rollout phase on all workers of AgentRL."""
    began = time.perf_counter()
    episodes = room.play_on(ours.pool, load, iteration)
    seconds = time.perf_counter() - began
    return Phase(
        seconds=seconds,
        sampled=sum(e.num_sampled for e in episodes),
        tokens=sum(len(e.ids) - e.turns[0].start for e in episodes),
        env_steps=sum(len(e.turns) for e in episodes),
    )


def play_trl(trl: peer.Peer, load: Load) -> Phase:
    """One rollout phase in the TRL process."""
    return Phase(**trl.ask(do="rollout", **asdict(load)))


def rate(phases: Sequence[Phase]) -> float:
    """Median of sampled tokens per second."""
    return statistics.median(phase.rate for phase in phases)


def steps(phases: Sequence[Phase]) -> float:
    """Median of environment steps per second."""
    return statistics.median(phase.env_steps / phase.seconds for phase in phases)


def summary(result: Result) -> str:
    """One line for a finished measurement."""
    ratio = result.ratio()
    return (
        f"{result.model} {result.load.latency_ms:g} ms: AgentRL {rate(result.ours):,.0f} tok/s"
        + ("" if ratio is None else f", TRL {rate(result.trl):,.0f}, ratio {ratio:.1f}")
    )


def table(results: Sequence[Result]) -> Table:
    """Table of the results for the terminal."""
    shown = Table(title="rollout phase, AgentRL and TRL")
    for column in ("model", "load", "latency ms", "AgentRL tok/s", "TRL tok/s", "ratio", "range"):
        shown.add_column(column, justify="right")
    for column in ("AgentRL steps/s", "TRL steps/s"):
        shown.add_column(column, justify="right")
    for result in results:
        load, ratio, ratios = result.load, result.ratio(), result.ratios() if result.trl else []
        shown.add_row(
            result.model,
            f"{load.rollouts} x {load.turns} x {load.turn_tokens}",
            f"{load.latency_ms:g}",
            f"{rate(result.ours):,.0f}",
            f"{rate(result.trl):,.0f}" if result.trl else "-",
            f"{ratio:.1f}" if ratio is not None else "-",
            f"{min(ratios):.1f}-{max(ratios):.1f}" if ratios else "-",
            f"{steps(result.ours):,.0f}",
            f"{steps(result.trl):,.0f}" if result.trl else "-",
        )
    return shown


def write(path: Path, results: Sequence[Result], versions: dict[str, Any]) -> None:
    """Write all measurements, the machine and the versions of TRL and its libraries as JSON."""
    written = {
        "machine": machine(),
        "peer": versions,
        "results": [asdict(result) | {"ratio": result.ratio()} for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {path}")


if __name__ == "__main__":
    main()
