"""Our rollout beside TRL's: sampled tokens a second at several environment latencies.

    python benchmarks/rollout.py --out benchmarks/results/rollout.json
    python benchmarks/rollout.py --quick

Both play the same world with the same weights and tokenizer, in turn, on the same number of cores:
TRL with that many threads, ours with that many worker processes of one thread. Only the rollout
phase is timed, on TRL's side `GRPOTrainer._generate` on its built-in multi-turn path
(`environment_factory`); one phase of each is played before, unmeasured. Replies are as long as
they come (a random model ends one early now and then), so tokens are counted, not assumed. TRL
leaves the last action of an episode unplayed: its environment steps are one fewer an episode, and
it waits that much less.

Columns: `tok/s` tokens the agent sampled in a second; `steps/s` environment steps; each the median
of the repeats; `ratio` of the two medians of tok/s, and the lowest and highest of the paired
repeats.
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
import models
import peer
import room
import workers
from rich.console import Console
from rich.table import Table
from room import Load

from agentrl_components.rollout.episode import Rules

SMALLER = {"24M": (32, 4, 16)}
"""Rollouts, turns and tokens a turn where the usual load would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One rollout phase as it was measured."""

    seconds: float
    sampled: int
    """Tokens the agent sampled."""
    tokens: int
    """Tokens after the prompt, observations included."""
    env_steps: int

    @property
    def rate(self) -> float:
        """Sampled tokens a second."""
        return self.sampled / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One model at one latency."""

    model: str
    parameters: int
    load: Load
    ours: tuple[Phase, ...]
    trl: tuple[Phase, ...]

    def ratios(self) -> list[float]:
        """Of tok/s, repeat by repeat."""
        return [a.rate / b.rate for a, b in zip(self.ours, self.trl, strict=True)]

    def ratio(self) -> float | None:
        """Of the medians of tok/s."""
        return rate(self.ours) / rate(self.trl) if self.trl else None


@click.command()
@click.option("--sizes", default=",".join(models.SIZES), show_default=True)
@click.option("--latencies", default="0,20,100", show_default=True, help="Milliseconds.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--cores", default=2, show_default=True, help="Threads of TRL, workers of ours.")
@click.option("--quick", is_flag=True, help="The smaller load, 2 repeats, latencies 0 and 20 ms.")
@click.option("--no-peer", is_flag=True, help="Our side alone.")
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
    """Measure, print a table, write JSON."""
    if not no_peer:
        peer.required(peer_python)
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
                peer.perhaps(not no_peer, peer_python, folder, cores) as trl,
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
                    result = compared(ours, trl, name, parameters, loaded, repeats)
                    results.append(result)
                    click.echo(told(result))
    Console().print(table(results))
    write(Path(out), results, versions)


def compared(
    ours: workers.Workers,
    trl: peer.Peer | None,
    name: str,
    parameters: int,
    load: Load,
    repeats: int,
) -> Result:
    """Turn about: ours, TRL, ours, TRL."""
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
    """A phase on every worker at once."""
    rules = Rules(
        max_turns=load.turns,
        context=4096,
        max_tokens_per_turn=load.turn_tokens,
        temperature=1.0,
        top_p=1.0,
        admissible=False,
        seed=0,
        purpose="benchmark",
    )
    every = room.jobs(load, iteration)
    parts = [
        [job for job in every if job.group % ours.pool.size == part]
        for part in range(ours.pool.size)
    ]
    began = time.perf_counter()
    played = ours.pool.map(room.play, [(part, rules, load.latency_ms) for part in parts])
    seconds = time.perf_counter() - began
    episodes = [episode for some in played for episode in some]
    return Phase(
        seconds=seconds,
        sampled=sum(e.num_sampled for e in episodes),
        tokens=sum(len(e.ids) - e.turns[0].start for e in episodes),
        env_steps=sum(len(e.turns) for e in episodes),
    )


def play_trl(trl: peer.Peer, load: Load) -> Phase:
    """A phase in TRL's process."""
    return Phase(**trl.ask(do="rollout", **asdict(load)))


def rate(phases: Sequence[Phase]) -> float:
    """The median of tok/s."""
    return statistics.median(phase.rate for phase in phases)


def steps(phases: Sequence[Phase]) -> float:
    """The median of environment steps a second."""
    return statistics.median(phase.env_steps / phase.seconds for phase in phases)


def told(result: Result) -> str:
    """A line while work goes on."""
    ratio = result.ratio()
    return f"{result.model} {result.load.latency_ms:g} ms: ours {rate(result.ours):,.0f} tok/s" + (
        "" if ratio is None else f", TRL {rate(result.trl):,.0f}, ratio {ratio:.1f}"
    )


def table(results: Sequence[Result]) -> Table:
    """As a person reads it."""
    shown = Table(title="rollout phase, our engine and TRL in turn")
    for column in ("model", "load", "latency ms", "ours tok/s", "TRL tok/s", "ratio", "range"):
        shown.add_column(column, justify="right")
    for column in ("ours steps/s", "TRL steps/s"):
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
    """Every phase that was measured, and what it was measured on."""
    written = {
        "machine": peer.machine(),
        "peer": versions,
        "results": [asdict(result) | {"ratio": result.ratio()} for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {path}")


if __name__ == "__main__":
    main()
