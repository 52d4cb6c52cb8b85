"""Sharded checkpoints: every rank writes and reads its own rows, as safetensors.

A checkpoint of one number of ranks can be read by another number (torch.distributed.checkpoint).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from agentrl_components.sharded.optimizer import ShardedOptimizer
from agentrl_components.storage.tensors import sort_metadata

STEPS = "steps"
"""Name of the tensor with the number of optimizer steps."""


def write(optimizer: ShardedOptimizer, folder: Path) -> list[Path]:
    """Write master weights and moments to `folder`, one file a rank. Returns the file that this
    rank wrote. A collective call; ranks on other machines write to their own `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    state = optimizer.tensors(moments=optimizer.steps > 0)
    state[STEPS] = torch.tensor([optimizer.steps])
    rank = torch.distributed.get_rank() + 1
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True, thread_count=1)
    save(state, storage_writer=writer)
    written = sorted(set(folder.iterdir()) - before)
    mine = [path for path in written if path.name.startswith(f"shard-{rank:05}-")]
    for path in mine:
        sort_metadata(path)  # equal states give equal bytes
    return mine


def read(optimizer: ShardedOptimizer, folder: Path) -> None:
    """Load what `write` wrote. A collective call."""
    steps = {STEPS: torch.tensor([0])}
    _load(steps, folder)
    optimizer.clear_moments()
    optimizer.steps = int(steps[STEPS])
    _load(optimizer.tensors(moments=optimizer.steps > 0), folder)


def read_weights(into: dict[str, Tensor], folder: Path) -> None:
    """Load master weights only, into sharded tensors by parameter name. A collective call."""
    _load({f"weight.{name}": tensor for name, tensor in into.items()}, folder)


def _load(state: dict[str, Tensor], folder: Path) -> None:
    load(dict(state), storage_reader=HuggingFaceStorageReader(str(folder)))
