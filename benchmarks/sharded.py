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

import ctypes
import gc
import json
import math
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import models
import numpy as np
import peer
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentrl_components.model.load import open_decoder
from agentrl_components.sharded.rank import POLICY, Rank, RankSetup
from agentrl_components.sharded.rounds import deal
from agentrl_components.spec import RunSpec
from agentrl_components.update.adamw import BETA1
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import Imitation, Objective, PolicyGradient
from agentrl_components.update.packing import Example

BAR, BYTES_BAR = 1e-5, 18.0
PERTURBATION = 1e-7
EPISODES, SHORTEST, LONGEST, VOCABULARY = 8, 8, 160, 300


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every arm does."""

    folder: str
    updates: int
    learning_rate: float
    objective: str
    dtype: str = "float32"

    def spec(self) -> RunSpec:
        """The manifest of the run."""
        return RunSpec.model_validate(
            {
                "model": {
                    "source": f"file://{self.folder}",
                    "context": 4096,
                    "template": "chat",
                    "dtype": self.dtype,
                },
                "environments": [{"name": "babyai", "builtin": "babyai"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "update": {"microBatchTokens": 256},
            }
        )


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What an arm found."""

    name: str
    norms: tuple[float, ...]
    seconds: float
    gradient_difference: float | None = None
    """The largest, over all tensors, as a share of the tensor's largest element."""
    norm_difference: float | None = None
    """The largest relative one, over all updates."""


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
        expected = Path(scratch) / "expected.safetensors"
        plain = train_plain(task, "plain", gradients=expected)
        shown(plain)
        control = compared(train_plain(task, "control, weights changed by 1e-7", 1e-7), plain)
        shown(control)
        arms = []
        for count in counts:
            began = time.perf_counter()
            found = on_ranks(count, train_rank, task, str(expected))[0]
            arm = Arm(
                name=f"ranks {count}",
                norms=tuple(found["norms"]),
                seconds=time.perf_counter() - began,
                gradient_difference=found["difference"],
            )
            arms.append(compared(arm, plain))
            shown(arms[-1])
        memory = {}
        for dtype in ("bfloat16", "float32"):
            parts = on_ranks(counts[-1], measure_memory, replace(task, dtype=dtype))
            memory[dtype] = {key: sum(p[key] for p in parts) / parameters for key in parts[0]}
            click.echo(
                f"{dtype}, {counts[-1]} ranks: "
                f"{memory[dtype]['held']:.2f} bytes a parameter in tensors, "
                f"{memory[dtype]['resident']:.2f} resident (bar {BYTES_BAR:g} in bfloat16: "
                f"ratio {memory[dtype]['resident'] / BYTES_BAR:.2f})"
            )
    written = {
        "machine": peer.machine(),
        "torch": torch.__version__,
        "model": size,
        "parameters": parameters,
        "objective": objective,
        "learning_rate": learning_rate,
        "bar": BAR,
        "plain": asdict(plain),
        "control": asdict(control),
        "sharded": [asdict(arm) for arm in arms],
        "bytes_a_parameter": {"ranks": counts[-1], "bar": BYTES_BAR, **memory},
    }
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def compared(arm: Arm, plain: Arm) -> Arm:
    """The arm with the largest relative difference of its norms from those of `plain`."""
    pairs = zip(arm.norms, plain.norms, strict=True)
    return replace(arm, norm_difference=max(abs(a - b) / b for a, b in pairs))


def shown(arm: Arm) -> None:
    """Print an arm."""
    parts = [f"{arm.name}: {arm.seconds:.1f} s"]
    for what, amount in (
        ("gradients", arm.gradient_difference),
        ("norms", arm.norm_difference),
    ):
        if amount is not None:
            parts.append(f"{what} differ by {amount:.1e} (bar {BAR:g}: ratio {amount / BAR:.2g})")
    click.echo(", ".join(parts))


def examples(update: int) -> list[Example]:
    """The episodes of an update: most are short, few are long."""
    draw = np.random.default_rng(update)
    spread = draw.random(EPISODES) ** 3
    out = []
    for length in (SHORTEST + spread * (LONGEST - SHORTEST)).astype(int):
        sampled = np.arange(1, length)
        size = len(sampled)
        out.append(
            Example(
                ids=draw.integers(0, VOCABULARY, length).astype(np.int32),
                sampled=sampled,
                allowed=None,
                temperature=1.0,
                columns={
                    "sampler": draw.normal(-5.7, 0.1, size).astype(np.float32),
                    "advantage": draw.normal(0.0, 1.0, size).astype(np.float32),
                    "weight": (draw.random(size) - 0.3).astype(np.float32),
                },
            )
        )
    return out


def objective_of(task: Task, chosen: Sequence[Example]) -> Objective:
    """The loss of an update."""
    tokens = sum(len(e.sampled) for e in chosen)
    if task.objective == "likelihood":
        return Imitation(total_weight=float(tokens), chunk=1024)
    return PolicyGradient(
        algorithm=task.spec().algorithm,
        denominators=Denominators(tokens=tokens, episodes=len(chosen), token_limit=4096),
        chunk=1024,
        unmoved=True,
    )


def train_plain(
    task: Task, name: str, perturbation: float = 0.0, gradients: Path | None = None
) -> Arm:
    """Train the decoder without FSDP, with torch's own AdamW. Writes the first gradients to the
    file `gradients`."""
    began, spec = time.perf_counter(), task.spec()
    decoder = open_decoder(Path(task.folder), torch.float32, torch.device("cpu"))
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(1 + perturbation * torch.randn(parameter.shape, generator=draw))
    groups = [
        {
            "params": [p for p in decoder.parameters() if (p.dim() >= 2) is decayed],
            "weight_decay": d,
        }
        for decayed, d in ((True, spec.update.weight_decay), (False, 0.0))
    ]
    adamw = torch.optim.AdamW(
        groups, lr=task.learning_rate, betas=(BETA1, spec.update.beta2), fused=True
    )
    norms = []
    for update in range(task.updates):
        chosen = examples(update)
        asked = objective_of(task, chosen)
        for pack in deal(chosen, spec.update.micro_batch_tokens, 1)[0].packs:
            asked(decoder, pack)[0].backward()  # type: ignore[arg-type, no-untyped-call]
        named = {n: p.grad for n, p in decoder.named_parameters() if p.grad is not None}
        if update == 0 and gradients is not None:
            save_file({n: g.clone() for n, g in named.items()}, gradients)
        squares = [
            float(torch.linalg.vector_norm(g, dtype=torch.float64)) ** 2 for g in named.values()
        ]
        norm = math.sqrt(sum(squares))
        norms.append(norm)
        for gradient in named.values():
            gradient.mul_(min(1.0, spec.update.max_grad_norm / (norm + 1e-6)))
        adamw.step()
        adamw.zero_grad()
    return Arm(name=name, norms=tuple(norms), seconds=time.perf_counter() - began)


def train_rank(rank: Rank, number: int, count: int, task: Task, expected: str) -> dict[str, Any]:
    """The norms of all updates, and how far the first gradients are from those in `expected`."""
    spec, norms, difference = task.spec(), [], 0.0
    for update in range(task.updates):
        chosen = examples(update)
        share = deal(chosen, spec.update.micro_batch_tokens, count)[number]
        rank.differentiate(objective_of(task, chosen), share)
        if update == 0:
            difference = difference_of(rank.policy, load_file(expected))
        norms.append(rank.step(POLICY, task.learning_rate))
    return {"norms": norms, "difference": difference}


def difference_of(module: nn.Module, expected: Mapping[str, Tensor]) -> float:
    """The largest difference of a gradient, as a share of the tensor's largest element."""
    worst = 0.0
    for name, parameter in module.named_parameters():
        found = parameter.grad.full_tensor()  # type: ignore[union-attr, operator]
        wanted = expected[name]
        worst = max(worst, float((found - wanted).abs().max() / wanted.abs().max()))
    return worst


def measure_memory(rank: Rank, number: int, count: int, task: Task, base: int) -> dict[str, float]:
    """Bytes that a rank holds while it has weights, gradients and both moments."""
    chosen = examples(0)
    asked = objective_of(task, chosen)
    share = deal(chosen, task.spec().update.micro_batch_tokens, count)[number]
    rank.differentiate(asked, share)
    rank.step(POLICY, 1e-3)  # moments exist from the first step on
    rank.differentiate(asked, share)
    gradients = sum(
        p.grad.to_local().nbytes  # type: ignore[operator, union-attr]
        for p in rank.policy.parameters()
    )
    state = rank._optimizers[POLICY].tensors(moments=True).values()
    held = gradients + sum(t.to_local().nbytes for t in state)  # type: ignore[operator]
    return {"held": float(held), "resident": float(resident() - base)}


def resident() -> int:
    """Bytes of this process in memory, once freed memory is given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def on_ranks(count: int, work: Callable[..., Any], task: Task, *more: Any) -> list[Any]:
    """What `work` returns in each of `count` processes that form a process group."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    context = multiprocessing.get_context("spawn")
    with context.Pool(count) as pool:
        calls = [(work, number, count, address, task, more) for number in range(count)]
        found = pool.starmap(in_rank, calls, chunksize=1)
        pool.close()
        pool.join()
    return found


def in_rank(
    work: Callable[..., Any],
    number: int,
    count: int,
    address: str,
    task: Task,
    more: Sequence[Any],
) -> Any:
    """Join the process group as rank `number`, do the work and leave."""
    if work is measure_memory:
        more = (warmed_up(number, count, address, task),)
        address = f"{address.rpartition(':')[0]}:{int(address.rpartition(':')[2]) + 1}"
    rank = opened(number, count, address, task)
    try:
        return work(rank, number, count, task, *more)
    finally:
        rank.leave()


def warmed_up(number: int, count: int, address: str, task: Task) -> int:
    """Bytes of this process after an update of the smallest model, which loads all code."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        models.make(models.SIZES["0.36M"], Path(scratch))
        small = replace(task, folder=scratch)
        rank = opened(number, count, address, small)
        measure_memory(rank, number, count, small, 0)
        rank.leave()
        del rank
    return resident()


def opened(number: int, count: int, address: str, task: Task) -> Rank:
    """A rank that has joined the process group."""
    rank = Rank(
        RankSetup(
            spec=task.spec(), folder=Path(task.folder), device="cpu", rank=number, ranks=count
        )
    )
    rank.join(address)
    return rank


if __name__ == "__main__":
    main()
