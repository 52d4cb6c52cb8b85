from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from agentrl_components.spec import COMPARES_A_GROUP, Algorithm
from agentrl_components.spec.fields.algorithm import AlgorithmName, Gae
from agentrl_components.update.advantages import ESTIMATORS, EpisodeView


def view(reward, group=0):
    """A reply of two tokens, a turn each way, then the final observation."""
    return EpisodeView(
        reward=reward,
        group=group,
        mask=np.array([False, True, True, False, False]),
        spans=((1, 3),),
        turn_rewards=(reward,),
        states=("a",),
        values=np.zeros(5, dtype=np.float32),
    )


def test_every_algorithm_of_the_manifest_has_an_estimator_and_no_other():
    assert set(ESTIMATORS) == set(get_args(AlgorithmName))


def test_what_compares_a_group_is_the_same_here_and_in_the_manifest():
    assert {name for name, e in ESTIMATORS.items() if e.needs_group} == COMPARES_A_GROUP


def test_only_ppo_needs_a_critic():
    assert [name for name, e in ESTIMATORS.items() if e.needs_critic] == ["ppo"]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_reward_before_a_trailing_observation_reaches_every_reply_and_no_other_token(name):
    estimator = ESTIMATORS[name]
    result = estimator.estimate([view(1.0), view(0.0)], Algorithm(name=name))
    for advantages, sign in zip(result.advantages, (1, -1), strict=True):
        assert advantages.dtype == np.float32
        np.testing.assert_array_equal(advantages[[0, 3, 4]], 0)
        assert (sign * advantages[1:3] > 0.1).all()
    assert (result.returns is not None) == estimator.needs_critic


def test_settings_of_the_manifest_reach_the_estimators():
    # Dr.GRPO: 1 - .5 = .5. GiGPO, weight 3, unscaled: .5 + 3 * .5 = 2.
    pair = [view(1.0), view(0.0)]
    dr = ESTIMATORS["grpo"].estimate(pair, Algorithm(scale_by_std=False))
    assert float(dr.advantages[0][1]) == 0.5
    steps = Algorithm(name="gigpo", gigpo_weight=3.0, scale_by_std=False)
    assert float(ESTIMATORS["gigpo"].estimate(pair, steps).advantages[0][1]) == pytest.approx(2.0)
    # PPO, gamma .5: two tokens of one turn return .5 and 1; one turn returns 1 for both.
    token = ESTIMATORS["ppo"].estimate(pair, Algorithm(name="ppo", gae=Gae(gamma=0.5)))
    turn = ESTIMATORS["ppo"].estimate(pair, Algorithm(name="ppo", gae=Gae(gamma=0.5, level="turn")))
    np.testing.assert_allclose(token.returns[0][1:3], [0.5, 1.0])
    np.testing.assert_allclose(turn.returns[0][1:3], [1.0, 1.0])
