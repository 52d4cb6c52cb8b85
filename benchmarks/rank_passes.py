"""What it is worth how a rank gets the weights of its passes, and when it exchanges gradients.

    python benchmarks/rank_passes.py --out benchmarks/results/rank_passes.json

Updates of trainers on the CPU, which gloo connects, on the skewed episodes of `sharded.py`. The
first way is the product's:

    1 rank   copies of all weights, or FSDP2; eight episodes
    2 ranks  weights stay gathered in an update and gradients are exchanged once; weights stay, and
             gradients are exchanged in each pass; each pass does both; 64 episodes

The ways take turns, each in new processes with one thread. A row has the median seconds of an
update, and ratios to the first. Gradient norms of one rank must be the same bits; those of two,
which add up in another order, the same but for 1e-5.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch
from processes.rank_processes import on_ranks
from report.machine import machine
from rich.console import Console
from rich.table import Table
from sharded_arms.task import Task, examples, objective_of
from sharded_arms.updates import joined
from torch.distributed.fsdp import FSDPModule
from workload import models

from agentrl_components.sharded.rank import POLICY, Rank
from agentrl_components.sharded.rounds import deal

BAR = 1e-5


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a rank gets weights and exchanges gradients."""

    name: str
    divided: bool = True
    """FSDP2 gathers the weights of the only rank too."""
    stay: bool = True
    """Weights stay gathered until the end of the update."""
    once: bool = True
    """Gradients are exchanged once in an update."""

    def apply(self, rank: Rank) -> None:
        """Have a rank that has been opened do so."""
        rank.room.exchanges_once = self.once
        if not self.stay:
            assert isinstance(rank.policy, FSDPModule)
            for block in rank.policy.blocks():
                assert isinstance(block, FSDPModule)
                block.set_reshard_after_forward(True)
            rank.policy.set_reshard_after_backward(True)


WAYS = {
    1: (Way(name="copies", divided=False), Way(name="FSDP2")),
    2: (
        Way(name="once an update"),
        Way(name="weights stay", once=False),
        Way(name="each pass", stay=False, once=False),
    ),
}
BATCHES = {1: 1, 2: 8}
"""Times eight episodes in an update, by the number of ranks."""


@click.command()
@click.option("--sizes", default="0.36M,2.45M,24M", show_default=True)
@click.option("--updates", default=6, show_default=True, help="Of a round; two more warm up.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--out", default="benchmarks/results/rank_passes.json", show_default=True)
def main(sizes: str, updates: int, rounds: int, out: str) -> None:
    """Measure, print tables and write JSON. Exit code 1 if norms differ."""
    found = []
    for ranks, ways in WAYS.items():
        names = [way.name for way in ways]
        table = Table(box=None, pad_edge=False, title=f"{ranks} rank{'s' * (ranks > 1)}")
        for column in ("model", "type", *names, "ratios"):
            table.add_column(column, justify="left" if column in ("model", "type") else "right")
        for size in sizes.split(","):
            with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
                models.make(models.SIZES[size], Path(scratch))
                for dtype in ("float32", "bfloat16"):
                    task = Task(
                        folder=scratch,
                        updates=updates,
                        learning_rate=1e-4,
                        objective="surrogate",
                        dtype=dtype,
                    )
                    one = compared(task, ranks, rounds)
                    found.append({"ranks": ranks, "model": size, "dtype": dtype, **one})
                    times = (f"{1e3 * one['seconds'][name]:.1f} ms" for name in names)
                    ratios = ", ".join(f"{ratio:.2f}" for ratio in one["ratios"].values())
                    table.add_row(size, dtype, *times, ratios)
        Console().print(table)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    written = {"machine": machine(), "torch": torch.__version__, "bar": BAR, "results": found}
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def compared(task: Task, ranks: int, rounds: int) -> dict[str, Any]:
    """Median seconds of an update by all ways, and packs of a rank. Raises `ClickException` if
    their norms differ."""
    seconds: dict[str, list[float]] = {way.name: [] for way in WAYS[ranks]}
    first: list[float] = []
    for _ in range(rounds):
        for way in WAYS[ranks]:
            took, norms, packs = on_ranks(ranks, train, task, ranks, way)[0]
            seconds[way.name] += took
            first = first or norms
            worst = max(abs(a - b) / a for a, b in zip(first, norms, strict=True))
            if worst > (BAR if ranks > 1 else 0):
                raise click.ClickException(f"{task.dtype}: norms differ by {worst:.1g}: {way.name}")
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    product, *others = medians
    ratios = {name: medians[name] / medians[product] for name in others}
    return {"packs": packs, "seconds": medians, "ratios": ratios}


def train(
    number: int, address: str, task: Task, ranks: int, way: Way
) -> tuple[list[float], list[float], int]:
    """Seconds of the updates after the first two, the norms of all gradients, and the packs of a
    rank in an update."""
    torch.set_num_threads(1)
    rank = joined(number, address, task, ranks, divided=way.divided)
    way.apply(rank)
    seconds, norms = [], []
    for update in range(task.updates + 2):
        batches = range(BATCHES[ranks] * update, BATCHES[ranks] * (update + 1))
        chosen = [one for batch in batches for one in examples(batch)]
        share = deal(chosen, task.spec().update.micro_batch_tokens, ranks)[number]
        began = time.perf_counter()
        rank.differentiate(objective_of(task, chosen), share)
        norms.append(rank.step(POLICY, task.learning_rate))
        seconds.append(time.perf_counter() - began)
    rank.leave()
    return seconds[2:], norms, len(share.packs)


if __name__ == "__main__":
    main()
