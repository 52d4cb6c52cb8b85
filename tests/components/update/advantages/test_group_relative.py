from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.group_relative import group_relative

TRAILING = np.array([False, True, True, False, False])
"""One prompt token, a reply of two, a final observation of two."""


def tries(rewards, group=0):
    return [EpisodeView(reward=r, group=group, mask=TRAILING) for r in rewards]


def amounts(result):
    return [float(a[1]) for a in result.advantages]


def test_grpo_divides_by_the_unbiased_deviation():
    # mean .5; unbiased std of 1, 0, 1, 0 is sqrt(4 * .25 / 3) = .5773503
    # (1 - .5) / (.5773503 + 1e-6) = .8660239
    result = group_relative(tries([1, 0, 1, 0]))
    np.testing.assert_allclose(
        amounts(result), [0.8660239, -0.8660239, 0.8660239, -0.8660239], rtol=1e-6
    )


def test_dr_grpo_only_subtracts_the_mean():
    # mean of 1, .5, 0 is .5
    result = group_relative(tries([1, 0.5, 0]), scale_by_std=False)
    assert amounts(result) == pytest.approx([0.5, 0.0, -0.5])


def test_the_advantage_reaches_every_sampled_token_although_an_observation_follows():
    result = group_relative(tries([1, 0]), scale_by_std=False)
    np.testing.assert_array_equal(result.advantages[0], [0, 0.5, 0.5, 0, 0])
    assert result.advantages[0].dtype == np.float32
    assert result.returns is None


def test_tasks_are_not_compared_with_each_other():
    # group 0: 1, 0 -> .5, -.5; group 1: .2, .6 -> -.2, .2; interleaved on purpose
    views = [*tries([1], 0), *tries([0.2], 1), *tries([0], 0), *tries([0.6], 1)]
    result = group_relative(views, scale_by_std=False)
    assert amounts(result) == pytest.approx([0.5, -0.2, -0.5, 0.2])


def test_a_group_of_one_episode_has_advantage_zero():
    assert amounts(group_relative(tries([1]))) == [0.0]


rewards = st.lists(st.floats(0, 1, width=16), min_size=2, max_size=8)


@given(rewards=rewards, scaled=st.booleans())
def test_a_groups_advantages_sum_to_zero(rewards, scaled):
    total = sum(amounts(group_relative(tries(rewards), scale_by_std=scaled)))
    assert total == pytest.approx(0, abs=1e-5)


@given(rewards=rewards, constant=st.floats(-4, 4, width=16), scaled=st.booleans())
def test_adding_a_constant_to_a_groups_rewards_changes_nothing(rewards, constant, scaled):
    before = amounts(group_relative(tries(rewards), scale_by_std=scaled))
    after = amounts(group_relative(tries([r + constant for r in rewards]), scale_by_std=scaled))
    assert after == pytest.approx(before, abs=1e-5)
