from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.spec import Algorithm
from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.leave_one_out import leave_one_out
from agentrl_components.update.advantages.registry import estimate_advantages

TRAILING = np.array([False, True, False])


def tries(rewards):
    return [EpisodeView(reward=r, group=3, mask=TRAILING) for r in rewards]


def test_the_baseline_is_the_mean_of_the_others_and_reaches_the_reply_before_an_observation():
    # 1 - (0 + .5) / 2 = .75;  0 - (1 + .5) / 2 = -.75;  .5 - (1 + 0) / 2 = 0
    result = leave_one_out(tries([1, 0, 0.5]))
    np.testing.assert_allclose(result.advantages[0], [0, 0.75, 0])
    np.testing.assert_allclose(result.advantages[1], [0, -0.75, 0])
    np.testing.assert_allclose(result.advantages[2], [0, 0, 0])


def test_upstream_promises_rloo_and_refuses_it_and_here_it_can_be_chosen():
    result = estimate_advantages(tries([1, 0]), Algorithm(name="rloo"))
    assert float(result.advantages[0][1]) == 1.0


def test_a_group_of_one_episode_has_advantage_zero():
    np.testing.assert_array_equal(leave_one_out(tries([1])).advantages[0], [0, 0, 0])


@given(rewards=st.lists(st.floats(0, 1, width=16), min_size=2, max_size=8))
def test_it_equals_the_closed_form(rewards):
    # k / (k - 1) * (R - mean)
    k, mean = len(rewards), sum(rewards) / len(rewards)
    got = [float(a[1]) for a in leave_one_out(tries(rewards)).advantages]
    assert got == pytest.approx([k / (k - 1) * (r - mean) for r in rewards], abs=1e-6)
