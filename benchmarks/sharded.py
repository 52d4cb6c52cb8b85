"""The sharded update beside one process without shards: equality, and memory a parameter.

    python benchmarks/sharded.py --out benchmarks/results/sharded.json
    python benchmarks/sharded.py --quick

Ranks are processes that gloo connects. All arms train the same model on the same episodes, whose
lengths are skewed, in float32:

- gradients at the same weights: the largest difference of a tensor, as a share of its largest
  element (bar: 1e-5; one rank: 0);
- gradient norms of `--updates` updates: the largest relative difference (bar: 1e-5; one rank: 0
  but for the order in which the norm's squares are summed);
- a control without shards whose weights are changed by 1e-7 of their size at the start. Training
  amplifies such a change, so the bar on norms tells something only where the control keeps it: at
  24 M parameters it does with a learning rate of 1e-4, and does not with 1e-3;
- bytes a parameter of all ranks together in bfloat16 while weights, gradients and moments are held
  (bar: 18), and in float32: the growth of the processes' resident memory, and the tensors in it.

`--objective likelihood` weights the log-probability of each token; `surrogate` is the clipped one,
whose gradient jumps where a ratio crosses its bound.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import click
import torch
from processes.rank_processes import on_ranks
from report.machine import machine
from sharded_arms.memory import Memory, measure_memory
from sharded_arms.task import Task
from sharded_arms.updates import Arm, RankUpdates, train_plain, train_rank
from workload import models

from agentrl_components.sharded.process_group import MeetingPoint

BAR, BYTES_BAR = 1e-5, 18.0
PERTURBATION = 1e-7


@click.command()
@click.option("--size", default="24M", type=click.Choice(list(models.SIZES)), show_default=True)
@click.option("--ranks", default="1,2,4", show_default=True)
@click.option("--updates", default=20, show_default=True)
@click.option("--learning-rate", default=1e-4, show_default=True)
@click.option(
    "--objective",
    default="likelihood",
    type=click.Choice(["likelihood", "surrogate"]),
    show_default=True,
)
@click.option("--quick", is_flag=True, help="The smallest model, 5 updates, 1 and 2 ranks.")
@click.option("--out", default="benchmarks/results/sharded.json", show_default=True)
def main(
    size: str,
    ranks: str,
    updates: int,
    learning_rate: float,
    objective: str,
    quick: bool,
    out: str,
) -> None:
    """Compare sharded updates with one process: print ratios to the bars and write JSON."""
    if quick:
        size, ranks, updates = "0.36M", "1,2", 5
    torch.set_num_threads(1)
    counts = [int(one) for one in ranks.split(",")]
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        parameters = models.make(models.SIZES[size], Path(scratch))
        task = Task(
            folder=scratch, updates=updates, learning_rate=learning_rate, objective=objective
        )
        arms = train_arms(task, counts, Path(scratch) / "expected.safetensors")
        memory = {
            dtype: memory_per_parameter(replace(task, dtype=dtype), counts[-1], parameters)
            for dtype in ("bfloat16", "float32")
        }
    written = {
        "machine": machine(),
        "torch": torch.__version__,
        "model": size,
        "parameters": parameters,
        "objective": objective,
        "learning_rate": learning_rate,
        "bar": BAR,
        "plain": asdict(arms[0]),
        "control": asdict(arms[1]),
        "sharded": [asdict(arm) for arm in arms[2:]],
        "bytes_a_parameter": {"ranks": counts[-1], "bar": BYTES_BAR}
        | {dtype: asdict(each) for dtype, each in memory.items()},
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def train_arms(task: Task, counts: list[int], expected: Path) -> list[Arm]:
    """One process without shards, the control, and an arm for each number of ranks."""
    plain = train_plain(task, "plain", gradients=expected)
    show(plain)
    changed = train_plain(task, "control, weights changed by 1e-7", PERTURBATION)
    arms = [plain, compared(changed, plain)]
    show(arms[-1])
    for count in counts:
        began = time.perf_counter()
        found: RankUpdates = on_ranks(count, train_rank, task, count, expected)[0]
        arm = Arm(
            name=f"ranks {count}",
            norms=found.norms,
            seconds=time.perf_counter() - began,
            gradient_difference=found.gradient_difference,
        )
        arms.append(compared(arm, plain))
        show(arms[-1])
    return arms


def memory_per_parameter(task: Task, count: int, parameters: int) -> Memory:
    """Bytes a parameter of all ranks together."""
    warm = MeetingPoint("127.0.0.1")
    parts: list[Memory] = on_ranks(count, measure_memory, task, count, warm.address)
    found = Memory(
        held=sum(part.held for part in parts) / parameters,
        resident=sum(part.resident for part in parts) / parameters,
    )
    click.echo(
        f"{task.dtype}, {count} ranks: {found.held:.2f} bytes a parameter in tensors, "
        f"{found.resident:.2f} resident (bar {BYTES_BAR:g} in bfloat16: "
        f"ratio {found.resident / BYTES_BAR:.2f})"
    )
    return found


def compared(arm: Arm, plain: Arm) -> Arm:
    """The arm with the largest relative difference of its norms from those of `plain`."""
    pairs = zip(arm.norms, plain.norms, strict=True)
    return replace(arm, norm_difference=max(abs(a - b) / b for a, b in pairs))


def show(arm: Arm) -> None:
    """Print an arm."""
    parts = [f"{arm.name}: {arm.seconds:.1f} s"]
    for what, amount in (
        ("gradients", arm.gradient_difference),
        ("norms", arm.norm_difference),
    ):
        if amount is not None:
            parts.append(f"{what} differ by {amount:.1e} (bar {BAR:g}: ratio {amount / BAR:.2g})")
    click.echo(", ".join(parts))


if __name__ == "__main__":
    main()
