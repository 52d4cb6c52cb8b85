from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.reinforce_pp import reinforce_pp, reinforce_pp_baseline


def episode(reward, mask, group=0):
    return EpisodeView(
        reward=reward,
        group=group,
        mask=np.array([bit == "1" for bit in mask]),
    )


def test_upstreams_reinforce_plus_plus_is_zero_when_an_observation_follows_and_ours_is_not():
    # returns 1, 1, 1 and 0: mean .75, std .4330127 -> .5773503 and -1.7320508
    result = reinforce_pp([episode(1, "0110100"), episode(0, "0100")])
    np.testing.assert_allclose(
        result.advantages[0], [0, 0.5773503, 0.5773503, 0, 0.5773503, 0, 0], rtol=1e-6
    )
    np.testing.assert_allclose(result.advantages[1], [0, -1.7320508, 0, 0], rtol=1e-6)


def test_the_baseline_form_subtracts_the_groups_mean_first():
    # group 0: 1, 0 -> .5, -.5; group 1: 1, 1 -> 0, 0; one token each: mean 0, std sqrt(.5 / 4)
    # .5 / .3535534 = 1.4142136
    views = [episode(1, "10"), episode(0, "10"), episode(1, "10", 1), episode(1, "10", 1)]
    result = reinforce_pp_baseline(views)
    assert [float(a[0]) for a in result.advantages] == pytest.approx(
        [1.4142136, -1.4142136, 0, 0], rel=1e-6
    )


def test_equal_rewards_in_the_whole_batch_give_zero_advantages():
    result = reinforce_pp([episode(1, "110"), episode(1, "10")])
    np.testing.assert_array_equal(result.advantages[0], [0, 0, 0])


def test_an_empty_batch_and_an_episode_without_a_sampled_token_are_no_errors():
    assert reinforce_pp([]).advantages == ()
    np.testing.assert_array_equal(reinforce_pp([episode(1, "00")]).advantages[0], [0, 0])


def test_returns_are_normalised_within_each_environment():
    # Rewards 0 and 1 in one environment, 10 and 30 in the other: each pair becomes -1 and 1.
    mask = np.array([True])
    episodes = [
        EpisodeView(reward=reward, group=index, environment=name, mask=mask)
        for index, (name, reward) in enumerate([("a", 0.0), ("b", 10.0), ("a", 1.0), ("b", 30.0)])
    ]
    found = [float(a[0]) for a in reinforce_pp(episodes).advantages]
    assert found == pytest.approx([-1.0, -1.0, 1.0, 1.0], abs=1e-6)
