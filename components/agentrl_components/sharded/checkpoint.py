"""Sharded checkpoints: every rank writes and reads its own rows, as safetensors.

A checkpoint of one number of ranks can be read by another number (torch.distributed.checkpoint).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from agentrl_components.errors import StoreError
from agentrl_components.sharded.optimizer import ShardedOptimizer
from agentrl_components.sharded.shard_writer import ShardWriter

STEPS = "steps"
"""Tensors with the number of optimizer steps, one of each rank, are named by this and the rank."""
SHARD = re.compile(r"shard-(\d+)-")
"""How the name of a rank's file begins: with the rank, counted from 1."""


def write(optimizer: ShardedOptimizer, folder: Path) -> list[Path]:
    """Write master weights and moments to `folder`, one file a rank. Returns the file that this
    rank wrote. A collective call; ranks on other machines write to their own `folder`. Raises
    `StoreError` on every rank if one cannot write."""
    folder.mkdir(parents=True, exist_ok=True)
    state = optimizer.tensors(moments=optimizer.steps > 0)
    rank = torch.distributed.get_rank()
    state[f"{STEPS}.{rank}"] = torch.tensor([optimizer.steps])
    writer = ShardWriter(folder)
    with _store_errors(folder):
        save(state, storage_writer=writer)
    return writer.written


def rank_of(name: str) -> int | None:
    """The rank that wrote the file called `name`. None: no rank did."""
    found = SHARD.match(name)
    return int(found[1]) - 1 if found else None


def read(optimizer: ShardedOptimizer, folder: Path) -> None:
    """Load what `write` wrote. A collective call. With as many ranks as wrote, a rank reads tensors
    of the file with its own number only, and headers of the others. Raises `StoreError` if the
    files are not from `write`, or a rank cannot read them."""
    with _store_errors(folder):
        there = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    own = f"{STEPS}.{torch.distributed.get_rank()}"
    name = own if own in there else f"{STEPS}.0"
    if name not in there:
        raise StoreError(f"{folder.name}: optimizer state of another version of AgentRL")
    steps = {name: torch.tensor([0])}
    _load(steps, folder)
    optimizer.clear_moments()
    optimizer.steps = int(steps[name])
    _load(optimizer.tensors(moments=optimizer.steps > 0), folder)


def read_weights(into: dict[str, Tensor], folder: Path) -> None:
    """Load master weights only, into sharded tensors by parameter name. A collective call. Raises
    `StoreError` as `read` does."""
    _load({f"weight.{name}": tensor for name, tensor in into.items()}, folder)


def _load(state: dict[str, Tensor], folder: Path) -> None:
    with _store_errors(folder):
        load(dict(state), storage_reader=HuggingFaceStorageReader(str(folder)))


@contextmanager
def _store_errors(folder: Path) -> Iterator[None]:
    """Convert errors of torch.distributed.checkpoint, which are no `Exception`s, to `StoreError`s
    with what the first rank that failed raised."""
    try:
        yield
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items(), key=lambda failure: failure[0])
        raise StoreError(
            f"{folder}: rank {rank} of the trainers: {type(cause).__name__}: {cause}"
        ) from error
    except SafetensorError as error:
        raise StoreError(f"{folder}: {error}") from error
