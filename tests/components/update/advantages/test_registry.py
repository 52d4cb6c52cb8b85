from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from agentrl_components.spec import Algorithm
from agentrl_components.spec.algorithms import (
    ALGORITHMS,
    AlgorithmName,
    EstimatorName,
    SurrogateName,
)
from agentrl_components.spec.fields.algorithm import Gae
from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.registry import ESTIMATORS, estimate_advantages
from agentrl_components.update.losses.registry import SURROGATES


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


def test_every_algorithm_of_the_manifest_has_one_entry():
    assert set(ALGORITHMS) == set(get_args(AlgorithmName))


def test_every_estimator_and_surrogate_is_registered_and_used():
    traits = ALGORITHMS.values()
    assert set(ESTIMATORS) == set(get_args(EstimatorName)) == {t.estimator for t in traits}
    assert set(SURROGATES) == set(get_args(SurrogateName)) == {t.surrogate for t in traits}


def test_algorithms_that_compare_a_group():
    names = {name for name, traits in ALGORITHMS.items() if traits.needs_group}
    assert names == {"grpo", "rloo", "reinforce++-baseline", "gspo", "gigpo"}


def test_only_ppo_needs_a_critic():
    assert [name for name, traits in ALGORITHMS.items() if traits.needs_critic] == ["ppo"]


def test_only_gspo_has_a_ratio_per_episode():
    assert [name for name, t in ALGORITHMS.items() if t.surrogate == "sequence"] == ["gspo"]


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_reward_before_a_trailing_observation_reaches_every_reply_and_no_other_token(name):
    result = estimate_advantages([view(1.0), view(0.0)], Algorithm(name=name))
    for advantages, sign in zip(result.advantages, (1, -1), strict=True):
        assert advantages.dtype == np.float32
        np.testing.assert_array_equal(advantages[[0, 3, 4]], 0)
        assert (sign * advantages[1:3] > 0.1).all()
    assert (result.returns is not None) == ALGORITHMS[name].needs_critic


def test_settings_of_the_manifest_reach_the_estimators():
    # Dr.GRPO: 1 - .5 = .5. GiGPO, weight 3, unscaled: .5 + 3 * .5 = 2.
    pair = [view(1.0), view(0.0)]
    dr = estimate_advantages(pair, Algorithm(scale_by_std=False))
    assert float(dr.advantages[0][1]) == 0.5
    steps = Algorithm(name="gigpo", gigpo_weight=3.0, scale_by_std=False)
    assert float(estimate_advantages(pair, steps).advantages[0][1]) == pytest.approx(2.0)
    # PPO, gamma .5: two tokens of one turn return .5 and 1; one turn returns 1 for both.
    token = estimate_advantages(pair, Algorithm(name="ppo", gae=Gae(gamma=0.5)))
    turn = estimate_advantages(pair, Algorithm(name="ppo", gae=Gae(gamma=0.5, level="turn")))
    np.testing.assert_allclose(token.returns[0][1:3], [0.5, 1.0])
    np.testing.assert_allclose(turn.returns[0][1:3], [1.0, 1.0])
