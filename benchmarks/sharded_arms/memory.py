"""Memory of the ranks, from the weights to the moments."""

from __future__ import annotations

import ctypes
import gc
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from sharded_arms.task import Task, examples, objective_of
from sharded_arms.updates import joined
from workload import models

from agentrl_components.sharded.rank import POLICY, Rank
from agentrl_components.sharded.rounds import deal


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a rank has while it holds weights, gradients and both moments."""

    held: float
    """In tensors."""
    resident: float
    """Growth of the process."""


def measure_memory(number: int, address: str, task: Task, count: int, warm_address: str) -> Memory:
    """Measure a rank. The process has loaded all code before, with an update of the smallest model
    in the process group at `warm_address`."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        models.make(models.SIZES["0.36M"], Path(scratch))
        small = replace(task, folder=scratch)
        rank = joined(number, warm_address, small, count)
        update(rank, small, number, count)
        rank.leave()
        del rank
    base = resident()
    rank = joined(number, address, task, count)
    update(rank, task, number, count)
    measured = Memory(held(rank), resident() - base)
    rank.leave()
    return measured


def update(rank: Rank, task: Task, number: int, count: int) -> None:
    """One update, from which on there are moments, and the gradients of the next."""
    chosen = examples(0)
    asked = objective_of(task, chosen)
    share = deal(chosen, task.spec().update.micro_batch_tokens, count)[number]
    rank.differentiate(asked, share)
    rank.step(POLICY, 1e-3)
    rank.differentiate(asked, share)


def held(rank: Rank) -> float:
    """Bytes of the tensors that a rank holds."""
    gradients = sum(
        p.grad.to_local().nbytes  # type: ignore[union-attr]
        for p in rank.policy.parameters()
    )
    state = rank._optimizers[POLICY].tensors(moments=True).values()
    return float(gradients + sum(t.to_local().nbytes for t in state))  # type: ignore[attr-defined]


def resident() -> int:
    """Bytes of this process in memory, once freed memory is given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
