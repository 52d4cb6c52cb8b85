from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Ending, Trajectory, Turn
from agentrl_components.update.advantages.episodes import EpisodeView, zero_variance


def turn(start, end, reward, state):
    return Turn(
        start=start,
        end=end,
        reward=reward,
        wellformed=True,
        action="go",
        observation="a door",
        version=0,
        state=state,
    )


def played(turns, score):
    return Trajectory(
        environment="babyai",
        task="t",
        category="open",
        group=7,
        sample=0,
        iteration=0,
        ids=np.arange(6, dtype=np.int32),
        mask=np.array([False, True, False, False, True, False]),
        logprobs=np.zeros(6, dtype=np.float32),
        allowed=None,
        turns=turns,
        ending=Ending.TERMINATED,
        score=score,
        raw_score=score,
        success=True,
        max_turns=4,
    )


def test_upstream_keeps_only_the_last_steps_reward_and_here_the_turns_rewards_sum_to_the_reward():
    # factor 1 - .5 * 2 / 4 = .75; reward (.25 + .75) * .75 = .75; turns .1875 and .5625
    trajectory = played((turn(1, 2, 0.25, "a"), turn(4, 5, 0.75, "b")), 1.0)
    view = EpisodeView.of(trajectory, Reward(turn_penalty=0.5))
    assert view.reward == pytest.approx(0.75)
    assert view.turn_rewards == pytest.approx((0.1875, 0.5625))
    assert (view.group, view.spans, view.states) == (7, ((1, 2), (4, 5)), ("a", "b"))
    np.testing.assert_array_equal(view.sampled, [1, 4])


def view(reward, group):
    return EpisodeView(reward=reward, group=group, mask=np.array([True]))


def test_groups_of_equal_rewards_or_of_one_episode_have_zero_variance():
    views = [view(1, 0), view(0.5, 1), view(1, 0), view(0.25, 1), view(0.3, 2)]
    assert zero_variance(views) == {0, 2}


def test_rounding_is_no_variance():
    assert zero_variance([view(0.1 + 0.2, 4), view(0.3, 4)]) == {4}
