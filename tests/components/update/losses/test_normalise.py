from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.update.losses.gspo import sequence_surrogate
from agentrl_components.update.losses.normalise import Denominators, reduced

MODES = ("token", "sequence", "constant")
LOSSES = torch.tensor([1.0, 3.0, 8.0])
EPISODE = torch.tensor([0, 0, 1])
SIZE = Denominators(tokens=3, episodes=2, token_limit=10)


def test_the_three_normalisations():
    # token: 12 / 3 = 4; sequence: ((1 + 3) / 2 + 8) / 2 = 5; constant: 12 / (2 * 10) = .6
    values = [reduced(LOSSES, EPISODE, 2, mode, SIZE).item() for mode in MODES]
    assert values == pytest.approx([4.0, 5.0, 0.6])


def test_upstream_averages_each_micro_batch_alone_and_here_the_cut_does_not_change_the_loss():
    # Averages of micro-batches (1, 3) and (8) alone: (2 + 8) / 2 = 5. The mini-batch's: 12 / 3 = 4.
    first = reduced(LOSSES[:2], EPISODE[:2], 1, "token", SIZE)
    second = reduced(LOSSES[2:], EPISODE[2:] - 1, 1, "token", SIZE)
    assert (first + second).item() == pytest.approx(4.0)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=6),
    cut=st.integers(1, 5),
    mode=st.sampled_from(MODES),
    seed=st.integers(0, 2**31),
)
def test_micro_batches_add_up_to_their_mini_batch_in_value_and_gradient(lengths, cut, mode, seed):
    cut = min(cut, len(lengths) - 1)
    lengths_E = torch.tensor(lengths)
    episode = torch.repeat_interleave(torch.arange(len(lengths)), lengths_E)
    generator = torch.Generator().manual_seed(seed)
    logprobs = torch.randn(len(episode), generator=generator, dtype=torch.float64) * 0.1
    advantages = torch.randn(len(episode), generator=generator, dtype=torch.float64)
    size = Denominators(tokens=len(episode), episodes=len(lengths), token_limit=9)
    logprobs.requires_grad_()

    def loss(part, offset, episodes):
        surrogate = sequence_surrogate(
            logprobs[part],
            torch.zeros_like(logprobs[part]),
            advantages[part],
            episode[part] - offset,
            episodes,
            clip_low=0.2,
            clip_high=0.28,
        )
        return reduced(surrogate.loss_S, episode[part] - offset, episodes, mode, size)

    (whole_gradient,) = torch.autograd.grad(whole := loss(slice(None), 0, len(lengths)), logprobs)
    border = int(lengths_E[:cut].sum())
    parts = loss(slice(0, border), 0, cut) + loss(slice(border, None), cut, len(lengths) - cut)
    (parts_gradient,) = torch.autograd.grad(parts, logprobs)
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(parts_gradient, whole_gradient, rtol=1e-12, atol=1e-12)


def test_a_micro_batch_without_a_sampled_token_adds_nothing():
    empty, none = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    assert [reduced(empty, none, 0, mode, SIZE).item() for mode in MODES] == [0.0, 0.0, 0.0]


def test_nothing_is_read_from_the_device():
    # Tensors on the meta device have no contents; those of a GPU would have to be waited for.
    losses, episode = LOSSES.to("meta"), EPISODE.to("meta")
    surrogate = sequence_surrogate(losses, losses, losses, episode, 2, clip_low=0.2, clip_high=0.28)
    assert [reduced(surrogate.loss_S, episode, 2, mode, SIZE).shape for mode in MODES] == [()] * 3
