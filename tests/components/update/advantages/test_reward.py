from __future__ import annotations

import pytest

from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.update.advantages.reward import shaped


def test_an_unshaped_score_is_the_reward():
    assert shaped(0.7, 5, 8, Reward()) == 0.7


def test_a_turn_penalty_takes_its_share_of_the_cap():
    # 1 * (1 - 0.5 * 2 / 8) = 0.875
    assert shaped(1.0, 2, 8, Reward(turn_penalty=0.5)) == pytest.approx(0.875)


def test_a_turn_discount_is_paid_from_the_second_turn_on():
    # 1 * 0.9 ** 0 = 1; 1 * 0.9 ** (3 - 1) = 0.81
    assert shaped(1.0, 1, 8, Reward(turn_discount=0.9)) == pytest.approx(1.0)
    assert shaped(1.0, 3, 8, Reward(turn_discount=0.9)) == pytest.approx(0.81)


def test_both_shapings_multiply():
    # 0.5 * (1 - 0.5 * 4 / 8) * 0.9 ** 3 = 0.5 * 0.75 * 0.729 = 0.273375
    assert shaped(0.5, 4, 8, Reward(turn_penalty=0.5, turn_discount=0.9)) == pytest.approx(0.273375)


def test_an_episode_cut_before_its_first_reply_is_not_rewarded_for_it():
    # turns - 1 = -1 would divide by the discount: 1 / 0.9 > 1.
    assert shaped(1.0, 0, 8, Reward(turn_discount=0.9)) == 1.0
    assert shaped(0.0, 0, 8, Reward(turn_penalty=0.5, turn_discount=0.9)) == 0.0
