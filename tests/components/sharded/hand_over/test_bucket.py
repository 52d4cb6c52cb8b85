"""Weights in buckets of bounded size."""

import torch

from agentrl_components.sharded.hand_over.bucket import buckets

WEIGHTS = {
    "a": torch.arange(6.0).view(2, 3),  # 24 bytes
    "b": torch.arange(4, dtype=torch.bfloat16),  # 8 bytes
    "c": torch.arange(30.0),  # 120 bytes
    "d": torch.tensor([7.0]),
}


def test_buckets_are_filled_up_to_the_limit():
    names = [[e[0] for e in bucket.entries] for bucket in buckets(WEIGHTS.items(), 32)]
    assert names == [["a", "b"], ["c"], ["d"]]


def test_weights_come_out_as_they_went_in():
    found = {
        name: tensor for bucket in buckets(WEIGHTS.items(), 32) for name, tensor in bucket.tensors()
    }
    assert found.keys() == WEIGHTS.keys()
    for name, tensor in WEIGHTS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
