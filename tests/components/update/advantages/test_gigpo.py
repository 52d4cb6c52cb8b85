from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.gigpo import gigpo
from agentrl_components.update.advantages.group_relative import group_relative


def two_turns(rewards, states, group=0):
    """Replies at tokens 1 and 3, observations after each."""
    return EpisodeView(
        reward=sum(rewards),
        group=group,
        mask=np.array([False, True, False, True, False]),
        spans=((1, 2), (3, 4)),
        turn_rewards=rewards,
        states=states,
    )


def test_turns_made_in_the_same_state_are_compared_by_their_discounted_returns():
    # Returns with gamma .5: first episode R_1 = 0 + .5 * 1 = .5, R_2 = 1; second 0, 0.
    # Episode level: mean .5 -> .5, -.5. Anchor "a" holds both first turns: .5, 0 -> .25, -.25.
    # "b" and "c" were seen once: 0. With weight 2: .5 + 2 * .25 = 1, .5; -.5 - .5 = -1, -.5.
    views = [two_turns((0.0, 1.0), ("a", "b")), two_turns((0.0, 0.0), ("a", "c"))]
    result = gigpo(views, weight=2.0, scale_by_std=False, gamma=0.5)
    np.testing.assert_allclose(result.advantages[0], [0, 1.0, 0, 0.5, 0])
    np.testing.assert_allclose(result.advantages[1], [0, -1.0, 0, -0.5, 0])


def test_step_advantages_are_scaled_by_the_anchor_groups_own_deviation():
    # Anchor "a": returns .5, 0; mean .25, unbiased std .3535534; .25 / .3535544 = .7071048
    # Episode: rewards 1, 0; mean .5, std .7071068; .5 / (.7071068 + 1e-6) = .7071058
    views = [two_turns((0.0, 1.0), ("a", "b")), two_turns((0.0, 0.0), ("a", "c"))]
    first = gigpo(views, gamma=0.5).advantages[0]
    np.testing.assert_allclose(first, [0, 1.4142106, 0, 0.7071058, 0], rtol=1e-6)


def test_a_state_visited_twice_in_one_episode_is_compared_with_itself():
    # gamma .5: returns .5 and 1 in state "a"; mean .75 -> -.25, .25. One episode: its level is 0.
    result = gigpo([two_turns((0.0, 1.0), ("a", "a"))], scale_by_std=False, gamma=0.5)
    np.testing.assert_allclose(result.advantages[0], [0, -0.25, 0, 0.25, 0])


def test_states_of_different_tasks_are_different_anchors():
    views = [two_turns((0.0, 1.0), ("a", "b"), 0), two_turns((0.0, 0.0), ("a", "c"), 1)]
    for advantages in gigpo(views).advantages:
        np.testing.assert_array_equal(advantages, np.zeros(5))


def test_an_environment_that_does_not_tell_its_state_leaves_grpo():
    views = [two_turns((0.0, 1.0), (None, None)), two_turns((0.0, 0.0), (None, None))]
    for got, plain in zip(gigpo(views).advantages, group_relative(views).advantages, strict=True):
        np.testing.assert_array_equal(got, plain)


def test_a_forced_token_inside_a_credited_turn_gets_nothing():
    forced = np.array([False, True, False])
    views = [
        EpisodeView(
            reward=r, group=0, mask=forced, spans=((0, 3),), turn_rewards=(r,), states=("a",)
        )
        for r in (1.0, 0.0)
    ]
    # episode .5 plus step .5
    result = gigpo(views, scale_by_std=False)
    assert result.advantages[0] == pytest.approx([0, 1.0, 0])
