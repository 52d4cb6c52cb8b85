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
    # Returns: first episode R_1 = 0 + .95 * 1 = .95, R_2 = 1; second 0, 0.
    # Episode level: mean .5 -> .5, -.5. Anchor "a" holds both first turns: .95, 0 -> .475, -.475.
    # "b" and "c" were seen once: 0. Weight 2: .5 + 2 * .475 = 1.45, .5; -.5 - .95 = -1.45, -.5.
    views = [two_turns((0.0, 1.0), ("a", "b")), two_turns((0.0, 0.0), ("a", "c"))]
    result = gigpo(views, weight=2.0, scale_by_std=False)
    np.testing.assert_allclose(result.advantages[0], [0, 1.45, 0, 0.5, 0])
    np.testing.assert_allclose(result.advantages[1], [0, -1.45, 0, -0.5, 0])


def test_step_advantages_are_scaled_by_the_anchor_groups_own_deviation():
    # Anchor "a": returns .95, 0; mean .475, unbiased std .6717514; .475 / .6717524 = .7071057
    # Episode: rewards 1, 0; mean .5, std .7071068; .5 / (.7071068 + 1e-6) = .7071058
    views = [two_turns((0.0, 1.0), ("a", "b")), two_turns((0.0, 0.0), ("a", "c"))]
    first = gigpo(views).advantages[0]
    np.testing.assert_allclose(first, [0, 1.4142115, 0, 0.7071058, 0], rtol=1e-6)


def test_a_state_visited_twice_in_one_episode_is_compared_with_itself():
    # Returns .95 and 1 in state "a"; mean .975 -> -.025, .025. One episode: its level is 0.
    result = gigpo([two_turns((0.0, 1.0), ("a", "a"))], scale_by_std=False)
    np.testing.assert_allclose(result.advantages[0], [0, -0.025, 0, 0.025, 0])


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
