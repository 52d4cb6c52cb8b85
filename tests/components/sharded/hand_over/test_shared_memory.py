"""Weights in memory that another process reads."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agentrl_components.sharded.hand_over.shared_memory import SharedBuckets

WEIGHTS = {
    "a": torch.arange(6.0).view(2, 3),  # 24 bytes
    "b": torch.arange(4, dtype=torch.bfloat16),  # 8 bytes
    "c": torch.arange(30.0).view(5, 6).t(),  # 120 bytes, not contiguous
    "d": torch.tensor([7.0]),
    "e": torch.arange(3, dtype=torch.bfloat16),  # 6 bytes
    "f": torch.tensor([8.0, 9.0]),  # after a weight of two bytes an entry
}
READ = """
import pickle, sys
import torch
bucket = pickle.load(sys.stdin.buffer)
torch.save(dict(bucket.tensors()), sys.stdout.buffer)
"""


def read_elsewhere(bucket):
    """What another process finds."""
    run = subprocess.run(
        [sys.executable, "-c", READ], input=pickle.dumps(bucket), capture_output=True, check=True
    )
    return torch.load(io.BytesIO(run.stdout))


def shared_files():
    """The memory that this process shares, which torch keeps until all addresses were read."""
    return set(Path("/dev/shm").glob(f"torch_{os.getpid()}_*"))


@pytest.fixture
def shared():
    return SharedBuckets(iter(WEIGHTS.items()), 32)


def test_another_process_finds_the_weights(shared):
    found = {}
    while bucket := shared.fill(read=True):
        found |= read_elsewhere(bucket)
    assert found.keys() == WEIGHTS.keys()
    for name, tensor in WEIGHTS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_the_process_shares_other_tensors_as_before(shared):
    before = torch.multiprocessing.get_sharing_strategy()
    shared.fill(read=True)
    assert torch.multiprocessing.get_sharing_strategy() == before == "file_descriptor"


def test_the_memory_of_a_bucket_is_filled_again_two_buckets_later(shared):
    first, second = shared.fill(read=True), shared.fill(read=True)
    assert [entry[0] for entry in first.entries] == ["a", "b"]
    assert [entry[0] for entry in second.entries] == ["c"]
    (before,) = [tensors for name, tensors in first.tensors() if name == "b"]
    assert before.tolist() == [0, 1, 2, 3]
    third = shared.fill(read=True)
    assert [entry[0] for entry in third.entries] == ["d", "e", "f"]
    assert dict(second.tensors())["c"].tolist() == WEIGHTS["c"].tolist()
    assert dict(first.tensors())["a"][0, 0] == 7  # the bytes of "d"
    assert shared.fill(read=True) is None


def test_what_nobody_reads_takes_no_memory(shared):
    """Regression: each address that no sampler read kept its memory on the GPU for ever."""
    before = shared_files()
    first, second = shared.fill(read=False), shared.fill(read=True)
    assert [entry[0] for entry in first.entries] == ["a", "b"]
    assert first.bytes == 24 + 8
    assert len(shared_files() - before) == 1  # that of the second
    assert dict(second.tensors())["c"].tolist() == WEIGHTS["c"].tolist()
    assert shared.fill(read=False).bytes == 4 + 6 + 8
    assert shared.fill(read=False) is None
