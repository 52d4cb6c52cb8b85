"""The worlds: how one is built, known and hashed."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import Any

from agentrl_envs.env import content_id
from agentrl_envs.environments.babyai.game import Game
from agentrl_envs.environments.babyai.options import LEVELS
from agentrl_envs.errors import TaskError

MINIGRID = version("minigrid")
"""Worlds are a function of seed and version."""


def build(level: str) -> Game:
    """A game of one level, to be `reset(seed=...)` again and again. Raises `TaskError`."""
    if level not in LEVELS:
        raise TaskError(f"level: {level!r} is not a BabyAI level; choose among {', '.join(LEVELS)}")
    from agentrl_envs.environments.babyai.headless import quiet_level  # slow to import

    return quiet_level(level)


def object_code(thing: Any) -> str:
    """A few letters for whatever may lie in a cell, with all that its future depends on."""
    if thing is None:
        return "."
    kind, color, state = thing.encode()
    inside = "" if thing.contains is None else f"({object_code(thing.contains)})"
    return f"{kind}{color}{state}{inside}"


def grid_code(game: Game) -> str:
    """The whole grid as text, row by row. (Walls are told apart here: they are most of it.)"""
    return "".join(
        [
            "." if thing is None else "#" if thing.type == "wall" else object_code(thing)
            for thing in game.grid.grid
        ]
    )


def task_id(level: str, game: Game, grid: str) -> str:
    """The content hash of a game that was just reset (`grid` is its code): all that makes this
    task this task."""
    x, y = game.agent_pos
    pose = [int(x), int(y), int(game.agent_dir)]
    return content_id("babyai", [level, game.width, grid, pose, game.mission])


def state_hash(game: Game, grid: str) -> str:
    """Equal for equal hidden states: `grid` (its code), pose, load, what is done of the goal."""
    x, y = game.agent_pos
    load = object_code(game.carrying)
    text = f"{grid}|{x},{y},{game.agent_dir}|{load}|{_progress(game.instrs)}|{game.mission}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _progress(instruction: Any) -> str:
    """Which parts of a compound goal are done. Empty for a simple one."""
    if not hasattr(instruction, "instr_a"):
        return ""
    first, second = _progress(instruction.instr_a), _progress(instruction.instr_b)
    return f"({instruction.a_done}{first},{instruction.b_done}{second})"
