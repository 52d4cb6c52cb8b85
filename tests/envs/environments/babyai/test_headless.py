"""A game whose state was saved and restored, beside one that was generated."""

import random
from typing import Any

import pytest

from agentrl_envs.environments.babyai.headless import headless_level, restored, saved
from agentrl_envs.environments.babyai.level import grid_code, state_hash
from agentrl_envs.environments.babyai.options import LEVELS


def generated(level: str, seed: int) -> Any:
    game = headless_level(level)
    game.reset(seed=seed)
    return game


def outcomes(game: Any, seed: int) -> list[Any]:
    """What 60 random primitive actions lead to."""
    draw = random.Random(seed)
    found = []
    for _ in range(60):
        _, reward, terminated, truncated, _ = game.step(draw.randrange(6))
        found.append((reward, terminated, truncated, state_hash(game, grid_code(game))))
        if terminated or truncated:
            break
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_a_restored_game_goes_on_as_the_one_that_was_saved(level: str) -> None:
    for seed in range(3):
        game = generated(level, seed)
        copy = restored(headless_level(level), saved(game))
        assert (copy.mission, grid_code(copy)) == (game.mission, grid_code(game))
        assert outcomes(copy, seed) == outcomes(game, seed)


@pytest.mark.parametrize("level", LEVELS)
def test_playing_a_restored_game_does_not_change_others(level: str) -> None:
    game = generated(level, 1)
    state = saved(game)
    first, second = restored(game, state), restored(game, state)
    played = [outcomes(first, seed) for seed in range(4)]
    assert saved(second) == saved(restored(game, state))
    assert [outcomes(second, seed) for seed in range(4)] == played


@pytest.mark.parametrize("level", LEVELS)
def test_playing_draws_no_random_numbers(level: str) -> None:
    game = generated(level, 2)
    before = game.np_random.bit_generator.state
    outcomes(restored(game, saved(game)), 0)
    assert game.np_random.bit_generator.state == before
