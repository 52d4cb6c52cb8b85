"""What it is worth that the only rank computes with copies of its weights, and without FSDP2.

    python benchmarks/only_rank.py --out benchmarks/results/only_rank.json

Updates of a trainer with one rank on the CPU, on the episodes of `sharded.py`: eight of 8 to 160
tokens, most of them short. The two ways take turns, each in a process of its own with one thread. A
row has the median seconds of an update and the ratio; gradient norms must be the same bits.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import replace
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
from workload import models

from agentrl_components.sharded.rank import POLICY
from agentrl_components.sharded.rounds import deal

WAYS = {"copies": False, "FSDP2": True}
"""Whether FSDP2 gathers the weights."""


@click.command()
@click.option("--sizes", default="0.36M,2.45M,24M", show_default=True)
@click.option("--updates", default=10, show_default=True, help="Of a round; two more warm up.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--out", default="benchmarks/results/only_rank.json", show_default=True)
def main(sizes: str, updates: int, rounds: int, out: str) -> None:
    """Measure, print a table and write JSON. Exit code 1 if the norms differ."""
    table = Table(box=None, pad_edge=False)
    for column in ("model", "type", *WAYS, "ratio"):
        table.add_column(column, justify="left" if column in ("model", "type") else "right")
    found = []
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
                one = compared(task, rounds)
                found.append({"model": size, "dtype": dtype, **one})
                milliseconds = (f"{1e3 * one['seconds'][way]:.1f} ms" for way in WAYS)
                table.add_row(size, dtype, *milliseconds, f"{one['ratio']:.2f}")
    Console().print(table)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    written = {"machine": machine(), "torch": torch.__version__, "results": found}
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def compared(task: Task, rounds: int) -> dict[str, Any]:
    """Median seconds of an update by both ways. Raises `ClickException` if their norms differ."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    norms = set()
    for _ in range(rounds):
        for way, divided in WAYS.items():
            took, of_run = on_ranks(1, train, replace(task, divided=divided))[0]
            seconds[way] += took
            norms.add(of_run)
    if len(norms) > 1:
        raise click.ClickException(f"{task.dtype}: the norms of the two ways differ")
    medians = {way: statistics.median(some) for way, some in seconds.items()}
    return {"seconds": medians, "ratio": medians["FSDP2"] / medians["copies"]}


def train(number: int, address: str, task: Task) -> tuple[list[float], tuple[float, ...]]:
    """Seconds of the updates after the first two, and the norms of all gradients."""
    torch.set_num_threads(1)
    rank = joined(number, address, task, 1)
    seconds, norms = [], []
    for update in range(task.updates + 2):
        chosen = examples(update)
        share = deal(chosen, task.spec().update.micro_batch_tokens, 1)[0]
        began = time.perf_counter()
        rank.differentiate(objective_of(task, chosen), share)
        norms.append(rank.step(POLICY, task.learning_rate))
        seconds.append(time.perf_counter() - began)
    rank.leave()
    return seconds[2:], tuple(norms)


if __name__ == "__main__":
    main()
