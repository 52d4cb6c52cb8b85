from collections.abc import Callable
from typing import Any

import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Key, Wall

from agentrl_envs.environments.babyai.level import build

FACING = ">v<^"
KINDS = {"ball": Ball, "key": Key, "box": Box}


def make(words: str) -> Any:
    """`red ball` or `locked red door` -> an object of minigrid."""
    *state, color, kind = words.split()
    if kind == "door":
        return Door(color, is_open=state == ["open"], is_locked=state == ["locked"])
    return KINDS[kind](color)


@pytest.fixture
def layout() -> Callable[..., Any]:
    """Build a game from rows: `#` wall, `.` floor, `>v<^` the agent, letters objects."""

    def draw(rows: list[str], carrying: str = "", **things: str) -> Any:
        game = build("BabyAI-PickupDist-v0")
        game.reset(seed=0)
        game.width, game.height = len(rows[0]), len(rows)
        game.grid = Grid(game.width, game.height)
        for y, row in enumerate(rows):
            for x, mark in enumerate(row):
                if mark in FACING:
                    game.agent_pos, game.agent_dir = (x, y), FACING.index(mark)
                elif mark != ".":
                    game.grid.set(x, y, Wall() if mark == "#" else make(things[mark]))
        game.carrying = make(carrying) if carrying else None
        return game

    return draw
