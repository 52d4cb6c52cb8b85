from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.update.losses.gspo import sequence_surrogate
from agentrl_components.update.losses.normalise import Denominators, reduced

EPISODE = torch.tensor([0, 0, 1])


def test_the_ratio_is_the_geometric_mean_of_the_episodes_token_ratios():
    # episode 0: sqrt(2 * .5) = 1, although both tokens moved; episode 1: 1.5
    logprobs = torch.tensor([math.log(2.0), math.log(0.5), math.log(1.5)])
    result = sequence_surrogate(
        logprobs, torch.zeros(3), torch.ones(3), EPISODE, 2, clip_low=0.2, clip_high=0.28
    )
    assert result.ratio_S.tolist() == pytest.approx([1, 1, 1.5], rel=1e-6)
    # an episode is clipped as a whole: -min(1.5, 1.28)
    assert result.loss_S.tolist() == pytest.approx([-1, -1, -1.28], rel=1e-6)
    assert result.clipped_S.tolist() == [False, False, True]


numbers = st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=5)


@given(moves=numbers, advantage=st.sampled_from([-1.5, 0.5]))
def test_the_token_form_has_the_value_and_the_gradient_of_the_sequence_form(moves, advantage):
    episode = torch.tensor([0, 0, 0, 1, 1])
    advantages = torch.full((5,), advantage, dtype=torch.float64)
    logprobs = torch.tensor(moves, dtype=torch.float64, requires_grad=True)
    result = sequence_surrogate(
        logprobs, torch.zeros(5).double(), advantages, episode, 2, clip_low=0.1, clip_high=0.1
    )
    size = Denominators(tokens=5, episodes=2, token_limit=8)
    loss = reduced(result.loss_S, episode, 2, "sequence", size)
    (got,) = torch.autograd.grad(loss, logprobs)

    # The definition: -1/2 * sum over episodes of min(s A, clip(s) A), s = exp(mean log-ratio).
    plain = logprobs.detach().clone().requires_grad_()
    s = torch.stack([plain[:3].mean(), plain[3:].mean()]).exp()
    defined = -torch.minimum(s * advantage, s.clamp(0.9, 1.1) * advantage).mean()
    (expected,) = torch.autograd.grad(defined, plain)
    torch.testing.assert_close(loss, defined)
    torch.testing.assert_close(got, expected)
