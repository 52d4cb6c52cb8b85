"""Two ranks, of which each fits its passes to its own packs."""

import pytest
import torch
from learner_bench import spec
from rank_passes import on_two_ranks

from agentrl_components.model.shape import read_native
from agentrl_components.sharded.passes.pass_memory import PassSize, Recomputation, activation_bytes

LENGTHS = (60, 9)
"""Tokens of an episode for each of the ranks."""


@pytest.fixture(scope="module")
def all_again(folder, tmp_path_factory):
    """The gradients if there is no memory."""
    out = tmp_path_factory.mktemp("all_again")
    found = on_two_ranks(folder, LENGTHS, 0, out)
    assert [(one.recomputed, one.gathered) for one in found] == [(1, False), (1, False)]
    return found[0].gradients


BLOCK = 4 * 24 * 24 + 3 * 24 * 64 + 2 * 24
"""Parameters of the model's only block."""


@pytest.mark.parametrize(
    ("fitting", "weights", "recomputed", "gathered"),
    [(9, 0, [1, 0], False), (64, 0, [0, 0], False), (64, 1, [0, 0], True)],
)
def test_what_a_rank_keeps_does_not_change_gradients(
    folder, tmp_path, all_again, fitting, weights, recomputed, gathered
):
    """`fitting`: tokens of a pass that keeps all. `weights`: of how many models there is room."""
    shape = read_native(folder)
    room = activation_bytes(spec(), shape, PassSize(tokens=fitting), Recomputation())
    found = on_two_ranks(folder, LENGTHS, room + weights * 4 * BLOCK, tmp_path)
    assert [one.recomputed for one in found] == recomputed
    assert [one.gathered for one in found] == [gathered] * 2
    for one in found:
        assert all(torch.equal(one.gradients[name], g) for name, g in all_again.items())


def test_gradients_that_are_exchanged_once_are_those_that_are_exchanged_in_each_pass(
    folder, tmp_path
):
    lengths = (60, 9, 50, 41, 30, 33, 7, 52)  # five packs, of which one is repeated
    shape = read_native(folder)
    room = activation_bytes(spec(), shape, PassSize(tokens=64), Recomputation())
    outside = (shape.vocabulary + 1) * shape.hidden
    whole = 4 * BLOCK + 4 * (BLOCK + outside)
    found = []
    for more in (0, whole):
        out = tmp_path / str(more)
        out.mkdir()
        found.append(on_two_ranks(folder, lengths, room + more, out))
    assert [(one.gathered, one.once) for ranks in found for one in ranks] == [
        *[(False, False)] * 2,
        *[(True, True)] * 2,
    ]
    each, once = (ranks[0].gradients for ranks in found)
    for name, gradient in each.items():
        assert (once[name] - gradient).abs().max() <= 1e-6 * gradient.abs().max(), name
