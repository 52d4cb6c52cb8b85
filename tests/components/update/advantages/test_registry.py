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
from agentrl_components.update.advantages.registry import (
    ESTIMATORS,
    estimate_advantages,
    groups_without_signal,
)
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


def walk(group, states):
    """An episode of reward 1 after two turns."""
    return EpisodeView(
        reward=1.0,
        group=group,
        mask=np.ones(2, dtype=bool),
        spans=((0, 1), (1, 2)),
        turn_rewards=(0.0, 1.0),
        states=states,
    )


def test_gigpo_keeps_groups_whose_turns_differ_although_their_rewards_are_equal():
    """In group 0 state "b" is reached one turn before the reward and at the reward: returns .95 and
    1. In group 1 all returns from a state are equal."""
    views = [walk(0, ("a", "b")), walk(0, ("b", "c")), walk(1, ("a", "b")), walk(1, ("a", "b"))]
    steps = Algorithm(name="gigpo")
    assert groups_without_signal(views, steps) == {1}
    amounts = [float(abs(a).max()) for a in estimate_advantages(views, steps).advantages]
    assert min(amounts[:2]) > 0.1
    assert max(amounts[2:]) == 0.0
    assert groups_without_signal(views, Algorithm(name="gigpo", gigpo_weight=0.0)) == {0, 1}
    assert groups_without_signal(views, Algorithm(name="grpo")) == {0, 1}


def test_gigpo_drops_no_group_unless_the_manifest_says_so():
    dropping = {name for name in ALGORITHMS if Algorithm(name=name).drops_groups}
    assert dropping == {"grpo", "rloo", "reinforce++-baseline", "gspo"}
    assert Algorithm(name="gigpo", drop_zero_variance=True).drops_groups
    assert not Algorithm(name="grpo", drop_zero_variance=False).drops_groups
    assert not Algorithm(name="ppo", drop_zero_variance=True).drops_groups


def test_gspo_has_the_papers_clip_range_and_sequence_mean_by_default():
    gspo, grpo = Algorithm(name="gspo"), Algorithm(name="grpo")
    assert (gspo.clip, gspo.normalisation) == ((3e-4, 4e-4), "sequence")
    assert (grpo.clip, grpo.normalisation) == ((0.2, 0.28), "token")
    own = Algorithm(name="gspo", clip_low=0.1, clip_high=0.2, normalise="token")
    assert (own.clip, own.normalisation) == ((0.1, 0.2), "token")
