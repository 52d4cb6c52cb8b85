from __future__ import annotations

import math

import pytest
import torch

from agentrl_components.update.losses.importance import importance_weights

SAMPLER = torch.full((4,), -2.0)
TRAINER = SAMPLER + torch.tensor([1.0, 1.5, 4.0, 0.25]).log()


def test_truncation_caps_what_the_trainer_finds_likelier():
    result = importance_weights(TRAINER, SAMPLER, mode="truncate", cap=2.0)
    assert result.weights_S.tolist() == pytest.approx([1.0, 1.5, 2.0, 0.25])
    assert result.kept_S.tolist() == [1.0] * 4
    assert result.bounded_S.tolist() == [False, False, True, False]


def test_masking_drops_what_is_beyond_the_cap_or_below_its_inverse():
    result = importance_weights(TRAINER, SAMPLER, mode="mask", cap=2.0)
    assert result.weights_S.tolist() == pytest.approx([1.0, 1.5, 0.0, 0.0])
    assert result.kept_S.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert result.bounded_S.tolist() == [False, False, True, True]


def test_off_leaves_every_token_alone_but_still_measures():
    result = importance_weights(TRAINER, SAMPLER, mode="off", cap=2.0)
    assert result.weights_S.tolist() == result.kept_S.tolist() == [1.0] * 4
    # ratio - 1 - log ratio: 0; .5 - log 1.5; 3 - log 4; -.75 + log 4
    expected = [0.0, 0.5 - math.log(1.5), 3 - math.log(4), -0.75 + math.log(4)]
    assert result.mismatch_kl_S.tolist() == pytest.approx(expected, abs=1e-6)


def test_weights_carry_no_gradient():
    trainer = TRAINER.clone().requires_grad_()
    result = importance_weights(trainer, SAMPLER, mode="truncate", cap=2.0)
    assert not result.weights_S.requires_grad


def test_a_token_that_one_side_finds_impossible_gives_finite_numbers():
    trainer, sampler = torch.tensor([0.0, -500.0]), torch.tensor([-500.0, 0.0])
    for mode in ("off", "truncate", "mask"):
        result = importance_weights(trainer, sampler, mode=mode, cap=2.0)
        assert torch.isfinite(result.weights_S).all()
        assert torch.isfinite(result.mismatch_kl_S).all()
