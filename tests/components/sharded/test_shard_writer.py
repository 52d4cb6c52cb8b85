"""Files of a rank's part of a checkpoint."""

import gc
import json

import pytest
import torch
from learner_bench import spec
from safetensors import safe_open
from torch.distributed.checkpoint import load, save
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor
from torch.multiprocessing.reductions import StorageWeakRef

from agentrl_components.errors import StoreError
from agentrl_components.sharded.checkpoint import read
from agentrl_components.sharded.optimizer import ShardedOptimizer
from agentrl_components.sharded.shard_writer import ShardWriter

NAME = "shard-00001-model-00001-of-00001.safetensors"


@pytest.fixture
def state(folder, open_rank):
    """Tensors of each kind that a checkpoint has, in a group of one rank. One has no rows."""
    open_rank(folder)
    mesh = DeviceMesh("cpu", [0])
    whole = torch.arange(12, dtype=torch.float32).view(3, 4)
    return {
        "weight.b": distribute_tensor(whole, mesh, [Shard(0)]),
        "weight.a": distribute_tensor(whole[0].bfloat16(), mesh, [Shard(0)]),
        "weight.c": distribute_tensor(torch.empty(0, 4), mesh, [Shard(0)]),
        "steps.0": torch.tensor([7]),
    }


def content(path):
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    return tensors, metadata | {"DCP_SHARDING_INFO": json.loads(metadata["DCP_SHARDING_INFO"])}


def test_the_file_has_the_tensors_and_metadata_of_torchs_own_writer(state, tmp_path):
    save(state, storage_writer=ShardWriter(tmp_path / "ours"))
    theirs = HuggingFaceStorageWriter(str(tmp_path / "theirs"), save_distributed=True)
    save(state, storage_writer=theirs)
    (found, metadata), (expected, about) = (
        content(tmp_path / part / NAME) for part in ("ours", "theirs")
    )
    assert metadata == about
    assert found.keys() == expected.keys() == state.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_what_was_written_can_be_read(state, tmp_path):
    save(state, storage_writer=ShardWriter(tmp_path))
    again = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    load(again, storage_reader=HuggingFaceStorageReader(str(tmp_path)))
    assert again["steps.0"].tolist() == [7]
    assert again["weight.b"].full_tensor().tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


class Watching(DefaultSavePlanner):
    """Gives a copy of each tensor, as a GPU does, and counts those that are in memory."""

    def __init__(self):
        super().__init__()
        self.given, self.most = [], 0

    def resolve_data(self, write_item):
        copy = super().resolve_data(write_item).clone()
        self.given.append(StorageWeakRef(copy.untyped_storage()))
        gc.collect()
        self.most = max(self.most, sum(not one.expired() for one in self.given))
        return copy


def test_one_tensor_is_in_memory_while_the_next_is_copied(state, tmp_path):
    ours, theirs = Watching(), Watching()
    save(state, storage_writer=ShardWriter(tmp_path / "ours"), planner=ours)
    assert (len(ours.given), ours.most) == (4, 2)
    writer = HuggingFaceStorageWriter(str(tmp_path / "theirs"), save_distributed=True)
    save(state, storage_writer=writer, planner=theirs)
    assert theirs.most == 4


def test_files_without_the_number_of_steps_are_of_another_version(open_rank, folder, tmp_path):
    policy = open_rank(folder).policy
    optimizer = ShardedOptimizer(policy, spec().update)
    save(optimizer.tensors(moments=False), storage_writer=ShardWriter(tmp_path))
    optimizer.steps = 3
    with pytest.raises(StoreError, match="optimizer state of another version of AgentRL"):
        read(optimizer, tmp_path)
    assert optimizer.steps == 3
