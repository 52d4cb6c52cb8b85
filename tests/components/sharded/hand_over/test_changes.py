"""What changed of the weights since a hand-over."""

import pytest
import torch
from changed_ranks import on_two_ranks

from agentrl_components.sharded.hand_over.bucket import change_bucket
from agentrl_components.sharded.rows import local_rows

BFLOAT16 = {"dtype": "bfloat16"}
NORM = "model.norm.weight"


@pytest.fixture
def rank(folder, open_rank):
    """The only rank, whose weights have been handed over."""
    rank = open_rank(folder, model=BFLOAT16)
    assert not rank.changes.find()  # there is nothing to compare with
    rank.changes.remember()
    return rank


def parameter(rank, name):
    return local_rows(dict(rank.policy.named_parameters())[name])


def changes(rank, limit=1 << 20):
    assert rank.changes.find()
    return [change for part in rank.changes.gathered(limit) for change in part]


def applied(weights, found):
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    for one in found:
        weights[one.name].view(-1)[one.indices.long()] = one.values
    return weights


def test_without_changes_there_is_nothing_to_send(rank):
    assert changes(rank) == []


def test_a_step_that_rounding_takes_away_is_no_change(rank):
    """Norms begin at 1. Above 1 the next number of bfloat16 is 1 + 2^-7, and below it 1 - 2^-8."""
    norm = parameter(rank, NORM)
    norm[3] += 2**-9
    norm[5] -= 2**-8
    norm[7] = 2.5
    (change,) = changes(rank)
    assert (change.name, change.shape) == (NORM, (24,))
    assert (change.indices.tolist(), change.indices.dtype) == ([5, 7], torch.int32)
    assert change.values.tolist() == [1 - 2**-8, 2.5]
    assert change.values.dtype is torch.bfloat16
    assert change.nbytes == 2 * (4 + 2)


def test_small_steps_add_up_to_a_change(rank):
    """Half the way from 1 to the next number is 2^-8: three steps round to 1, and four do not."""
    norm = parameter(rank, NORM)
    for _ in range(4):
        assert changes(rank) == []
        rank.changes.remember()
        norm[0] += 1.25 * 2**-10
    (change,) = changes(rank)
    assert change.values.tolist() == [1 + 2**-7]


def test_a_sign_of_zero_is_a_change(rank):
    norm = parameter(rank, NORM)
    norm[0] = 0.0
    rank.changes.remember()
    norm[0] = -0.0
    (change,) = changes(rank)
    assert change.indices.tolist() == [0]


def test_changes_of_more_than_a_sixth_of_the_entries_do_not_pay(rank):
    """An entry takes 6 bytes in the place of 2, and half of the bytes are to be saved."""
    total = sum(p.numel() for p in rank.policy.parameters())
    left = total // 6
    for tensor in (local_rows(p).view(-1) for p in rank.policy.parameters()):
        tensor[:left] += 1
        left -= min(left, len(tensor))
    assert rank.changes.find()
    largest = max((local_rows(p).view(-1) for p in rank.policy.parameters()), key=len)
    largest[-6:] += 1
    assert not rank.changes.find()


def test_changes_of_two_ranks_make_the_new_weights(folder, tmp_path):
    """The embedding [V, 24], a norm, of which each rank has 12 entries, and a matrix [64, 24]."""
    gate = "model.layers.0.mlp.gate_proj.weight"
    values = {
        "model.embed_tokens.weight": dict.fromkeys(range(0, 24 * 20, 7), 0.5),
        NORM: {11: 2.0, 12: 3.0},
        gate: {24 * 32: 4.0},  # the first entry of the second rank
    }
    first, second = on_two_ranks(folder, values, tmp_path)
    assert (first.pay, second.pay) == (True, True)
    assert second.changes == []
    found = {change.name: change for change in first.changes}
    assert found[NORM].indices.tolist() == [11, 12]
    assert found[NORM].values.tolist() == [2.0, 3.0]
    assert found[gate].indices.tolist() == [24 * 32]
    assert found["model.embed_tokens.weight"].indices.tolist() == list(range(0, 24 * 20, 7))
    assert len(found) == len(first.changes) == 3
    after = applied(first.before, first.changes)
    for name, weight in first.after.items():
        assert torch.equal(after[name], weight), name


def test_no_rank_sends_changes_if_too_much_changed_on_one(folder, tmp_path):
    """Of the gate [64, 24] the rows of the second rank, more than a sixth of its entries."""
    values = {"model.layers.0.mlp.gate_proj.weight": dict.fromkeys(range(24 * 32, 24 * 64), 9.0)}
    found = on_two_ranks(folder, values, tmp_path)
    assert [one.pay for one in found] == [False, False]


def test_buckets_of_changes_give_them_back(rank):
    parameter(rank, NORM)[:9] = 2.0
    parameter(rank, "model.layers.0.mlp.up_proj.weight")[1, :3] = 3.0
    found = changes(rank)
    assert len(found) == 2
    assert len(list(map(change_bucket, rank.changes.gathered(1 << 20)))) == 1
    one_each = list(map(change_bucket, rank.changes.gathered(1)))
    assert sorted(bucket.bytes for bucket in one_each) == [3 * 6, 9 * 6]
    back = [change for bucket in one_each for change in bucket.changes()]
    for one, other in zip(back, found, strict=True):
        assert (one.name, one.shape) == (other.name, other.shape)
        assert torch.equal(one.indices, other.indices)
        assert torch.equal(one.values, other.values)
