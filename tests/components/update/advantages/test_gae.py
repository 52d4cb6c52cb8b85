from __future__ import annotations

import numpy as np
import pytest

from agentrl_components.update.advantages.episodes import EpisodeView
from agentrl_components.update.advantages.gae import token_level, turn_level


def episode(reward, mask, values, spans=None, turn_rewards=None, environment=""):
    """One reply, if `spans` does not say otherwise; its last turn has earned the reward."""
    spans = spans or ((0, len(mask)),)
    return EpisodeView(
        reward=reward,
        group=0,
        environment=environment,
        turn_rewards=turn_rewards or (*[0.0] * (len(spans) - 1), reward),
        mask=np.array([bit == "1" for bit in mask]),
        spans=spans,
        values=np.array(values, dtype=np.float32),
    )


# prompt, two-token reply, observation, one-token reply, final observation; 9s must never be read
TWO_REPLIES = episode(1.0, "01101000", [9, 0.5, 0.25, 9, 0.75, 9, 9, 9], spans=((1, 3), (4, 5)))


def test_token_level_steps_over_sampled_tokens_only():
    # S = tokens 1, 2, 4 with V = .5, .25, .75 and r = 0, 0, 1; gamma = .9, lam = .5, k = .45
    # delta_4 = 1 - .75                = .25       A_4 = .25
    # delta_2 = .9 * .75 - .25         = .425      A_2 = .425 + .45 * .25      = .5375
    # delta_1 = .9 * .25 - .5          = -.275     A_1 = -.275 + .45 * .5375   = -.033125
    # normalised: mean .2514583, std .2329590
    result = token_level([TWO_REPLIES], gamma=0.9, lam=0.5)
    np.testing.assert_allclose(
        result.advantages[0], [0, -1.2216028, 1.2278628, 0, -0.00626004, 0, 0, 0], rtol=1e-6
    )
    # G = A + V: .466875, .7875, 1
    np.testing.assert_allclose(result.returns[0], [0, 0.466875, 0.7875, 0, 1.0, 0, 0, 0], rtol=1e-6)


def test_upstreams_ppo_return_is_zero_when_an_observation_follows_the_last_reply_and_ours_is_not():
    # gamma = lam = 1: every sampled token's return is the reward, 1.
    result = token_level([TWO_REPLIES], gamma=1.0, lam=1.0)
    np.testing.assert_allclose(result.returns[0], [0, 1, 1, 0, 1, 0, 0, 0], rtol=1e-6)


def test_trailing_observations_change_nothing_for_the_tokens_before_them():
    short = episode(1.0, "0111", [0, 0.5, 0.25, 0.75])
    long = episode(1.0, "0111000", [0, 0.5, 0.25, 0.75, 3, 3, 3])
    a = token_level([short], gamma=0.9, lam=0.9)
    b = token_level([long], gamma=0.9, lam=0.9)
    for one, other in ((a.advantages[0], b.advantages[0]), (a.returns[0], b.returns[0])):
        np.testing.assert_array_equal(one, other[:4])
        np.testing.assert_array_equal(other[4:], 0)


def test_turn_level_makes_one_step_per_turn_and_shares_it():
    # V at the turns' first sampled tokens: .5 and .75; r = 0, 1; gamma = .9, lam = .5
    # A_2 = 1 - .75 = .25;  A_1 = .9 * .75 - .5 + .45 * .25 = .175 + .1125 = .2875
    # normalised over three tokens: mean .275, std .01767767 (+ 1e-8)
    result = turn_level([TWO_REPLIES], gamma=0.9, lam=0.5)
    np.testing.assert_allclose(
        result.advantages[0], [0, 0.7071064, 0.7071064, 0, -1.4142128, 0, 0, 0], rtol=1e-6
    )
    # G_1 = .2875 + .5 = .7875, G_2 = .25 + .75 = 1
    np.testing.assert_allclose(result.returns[0], [0, 0.7875, 0.7875, 0, 1.0, 0, 0, 0], rtol=1e-6)


def test_turn_level_reads_the_value_at_the_first_token_that_was_sampled_not_forced():
    # replies [0, 1), V = .25, and [1, 4): token 1 forced, 2 and 3 sampled; V = .5 at token 2
    # gamma = 1, lam = 0: A_1 = .5 - .25 = .25, G_1 = .5; A_2 = 1 - .5 = .5, G_2 = 1
    # normalised over three tokens: mean .4166667, std .1178511 (+ 1e-8)
    view = episode(1.0, "10110", [0.25, 9, 0.5, 9, 9], spans=((0, 1), (1, 4)))
    result = turn_level([view], gamma=1.0, lam=0.0)
    np.testing.assert_allclose(result.returns[0], [0.5, 0, 1.0, 1.0, 0])
    np.testing.assert_allclose(
        result.advantages[0], [-1.4142134, 0, 0.7071067, 0.7071067, 0], rtol=1e-7
    )


def test_a_turn_without_sampled_tokens_is_not_a_step():
    # with gamma .5 a third step would halve the return: the first turn's is .5, not .25
    view = episode(1.0, "1001", [0, 9, 9, 0], spans=((0, 1), (1, 3), (3, 4)))
    result = turn_level([view], gamma=0.5, lam=1.0)
    np.testing.assert_allclose(result.returns[0], [0.5, 0, 0, 1.0])


# Three replies of one token each, with prompts between them; the first has earned everything.
EARLY = episode(
    0.5, "01010100", [0] * 8, spans=((1, 2), (3, 4), (5, 6)), turn_rewards=(0.5, 0.0, 0.0)
)


@pytest.mark.parametrize("level", [token_level, turn_level])
def test_a_reward_is_given_at_the_turn_that_earned_it(level):
    """Equation 11: with values of 0, a return is the discounted sum of the rewards from here on."""
    result = level([EARLY], gamma=0.9, lam=1.0)
    np.testing.assert_allclose(result.returns[0], [0, 0.5, 0, 0, 0, 0, 0, 0])
    last = episode(1.0, "0101", [0] * 4, spans=((1, 2), (3, 4)), turn_rewards=(0.25, 0.75))
    result = level([last], gamma=0.9, lam=1.0)
    np.testing.assert_allclose(result.returns[0], [0, 0.925, 0, 0.75])


def test_the_reward_of_a_turn_is_at_the_last_token_of_its_reply():
    two = episode(0.5, "0110100", [0] * 7, spans=((1, 3), (4, 5)), turn_rewards=(0.5, 0.0))
    result = token_level([two], gamma=0.5, lam=1.0)
    np.testing.assert_allclose(result.returns[0], [0, 0.25, 0.5, 0, 0, 0, 0])


@pytest.mark.parametrize("level", [token_level, turn_level])
def test_the_reward_of_a_turn_without_sampled_tokens_is_at_the_step_before_it(level):
    spans, rewards = ((0, 1), (1, 3), (3, 4)), (0.0, 0.5, 0.25)
    middle = episode(0.75, "1001", [0] * 4, spans=spans, turn_rewards=rewards)
    np.testing.assert_allclose(
        level([middle], gamma=0.5, lam=1.0).returns[0], [0.5 + 0.5 * 0.25, 0, 0, 0.25]
    )
    first = episode(0.75, "0011", [0] * 4, spans=((0, 1), (2, 3), (3, 4)), turn_rewards=rewards)
    np.testing.assert_allclose(
        level([first], gamma=0.5, lam=1.0).returns[0], [0, 0, 0.5 + 0.5 * 0.25, 0.25]
    )


@pytest.mark.parametrize("level", [token_level, turn_level])
def test_an_environment_without_a_difference_has_no_advantages_beside_another_one(level):
    """Whitened on its own it would have the critic's errors at the strength of the other's signal:
    0.1 and -0.1 would be 1 and -1."""
    hard = [
        episode(0.0, "01", [9, value], environment="hard", spans=((1, 2),)) for value in (-0.1, 0.1)
    ]
    easy = [
        episode(reward, "01", [9, 0.0], environment="easy", spans=((1, 2),))
        for reward in (1.0, 0.0)
    ]
    result = level([*hard, *easy], gamma=1.0, lam=1.0)
    np.testing.assert_allclose([a[1] for a in result.advantages], [0, 0, 1, -1], atol=1e-6)
    assert result.returns is not None
    np.testing.assert_allclose([r[1] for r in result.returns], [0, 0, 1, 0], atol=1e-7)
    alone = level(hard, gamma=1.0, lam=1.0)
    np.testing.assert_allclose([a[1] for a in alone.advantages], [1, -1], rtol=1e-6)


def test_advantages_are_whitened_over_all_sampled_tokens_of_the_batch_and_returns_are_not():
    # V = 0, gamma = lam = 1: raw advantages 1 (three tokens) and 0 (one token)
    # mean .75, std sqrt(3 * .0625 + .5625) / 2 = sqrt(.75) / 2 = .4330127
    # (1 - .75) / .4330127 = .5773503; (0 - .75) / .4330127 = -1.7320508
    views = [episode(1.0, "01110", [0] * 5), episode(0.0, "010", [0] * 3)]
    result = token_level(views, gamma=1.0, lam=1.0)
    np.testing.assert_allclose(result.advantages[0], [0, *[0.5773503] * 3, 0], rtol=1e-6)
    np.testing.assert_allclose(result.advantages[1], [0, -1.7320508, 0], rtol=1e-6)
    np.testing.assert_allclose(result.returns[0], [0, 1, 1, 1, 0])


def test_an_episode_without_a_sampled_token_gets_zeros():
    view = episode(1.0, "000", [1, 1, 1], spans=((1, 2),))
    for level in (token_level, turn_level):
        result = level([view], gamma=0.9, lam=0.9)
        np.testing.assert_array_equal(result.advantages[0], [0, 0, 0])
        np.testing.assert_array_equal(result.returns[0], [0, 0, 0])


def test_missing_values_are_named():
    view = EpisodeView(reward=1.0, group=0, mask=np.array([True]))
    with pytest.raises(ValueError, match="critic's values"):
        token_level([view], gamma=1.0, lam=1.0)
