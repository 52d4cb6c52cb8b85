from __future__ import annotations

import math

import pytest
import torch

from agentrl_components.update.losses.policy import clipped_surrogate

OLD = [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0]
RATIOS = [1.0, 1.5, 1.5, 0.5, 0.5, 4.0]
ADVANTAGES = [2.0, 2.0, -2.0, 2.0, -2.0, -2.0]


def surrogate(dual_clip):
    logprobs = torch.tensor([-1.0 + math.log(r) for r in RATIOS], requires_grad=True)
    result = clipped_surrogate(
        logprobs,
        torch.tensor(OLD),
        torch.tensor(ADVANTAGES),
        clip_low=0.2,
        clip_high=0.28,
        dual_clip=dual_clip,
    )
    result.loss_S.sum().backward()
    return result, logprobs.grad


def test_each_token_takes_the_worse_of_the_free_and_the_clipped_ratio():
    # 1.0, A 2:  -2.   1.5, A 2: min(3, 1.28 * 2) -> -2.56.   1.5, A -2: min(-3, -2.56) -> 3
    # .5, A 2: min(1, .8 * 2) -> -1.   .5, A -2: min(-1, -1.6) -> 1.6.   4, A -2: -8 -> 8
    result, _ = surrogate(None)
    assert result.loss_S.tolist() == pytest.approx([-2, -2.56, 3, -1, 1.6, 8], rel=1e-5)
    assert result.ratio_S.tolist() == pytest.approx(RATIOS, rel=1e-5)


def test_a_clipped_token_carries_no_gradient_and_the_others_minus_ratio_times_advantage():
    result, grad = surrogate(None)
    assert grad.tolist() == pytest.approx([-2, 0, 3, -1, 0, 8], rel=1e-5)
    assert result.clipped_S.tolist() == [False, True, False, False, True, False]


def test_the_dual_clip_bounds_the_loss_of_a_bad_token_that_became_likelier():
    # -3 * -2 = 6 instead of 8; the token at ratio 1.5 stays at 3
    result, grad = surrogate(3.0)
    assert result.loss_S.tolist() == pytest.approx([-2, -2.56, 3, -1, 1.6, 6], rel=1e-5)
    assert grad[5] == 0
    assert result.clipped_S.tolist() == [False, True, False, False, True, True]


def test_a_token_that_became_impossible_gives_finite_numbers():
    logprobs = torch.tensor([-800.0, 0.0], requires_grad=True)
    old = torch.tensor([0.0, -800.0])
    result = clipped_surrogate(
        logprobs, old, torch.tensor([0.0, -1.0]), clip_low=0.2, clip_high=0.2, dual_clip=None
    )
    result.loss_S.sum().backward()
    assert torch.isfinite(result.loss_S).all()
    assert torch.isfinite(logprobs.grad).all()


def test_no_gradient_reaches_the_old_policy_or_the_advantages():
    old = torch.tensor([-1.0], requires_grad=True)
    advantages = torch.tensor([1.0], requires_grad=True)
    logprobs = torch.tensor([-1.0], requires_grad=True)
    result = clipped_surrogate(
        logprobs, old, advantages, clip_low=0.2, clip_high=0.2, dual_clip=None
    )
    result.loss_S.sum().backward()
    assert old.grad is None
    assert advantages.grad is None
    assert logprobs.grad.tolist() == [-1.0]
