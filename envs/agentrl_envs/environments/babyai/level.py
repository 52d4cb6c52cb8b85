"""BabyAI levels: construction, content hashes and state hashes."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import Any

from agentrl_envs.env import content_id
from agentrl_envs.environments.babyai.field_of_view import Game
from agentrl_envs.environments.babyai.options import LEVELS
from agentrl_envs.errors import TaskError

MINIGRID = version("minigrid")
"""A world is a function of the seed and of minigrid's version."""


def build(level: str) -> Game:
    """A level object, reused by `reset(seed=...)`. Raises `TaskError` for an unknown level."""
    if level not in LEVELS:
        raise TaskError(f"level: {level!r} is not a BabyAI level; choose among {', '.join(LEVELS)}")
    from agentrl_envs.environments.babyai.headless import headless_level  # slow import

    return headless_level(level)


def object_code(thing: Any) -> str:
    """A short code of the content of a cell: everything that its later behaviour depends on."""
    if thing is None:
        return "."
    kind, color, state = thing.encode()
    inside = "" if thing.contains is None else f"({object_code(thing.contains)})"
    return f"{kind}{color}{state}{inside}"


def grid_code(game: Game) -> str:
    """The whole grid as text, row by row. Walls, which are most of it, take a fast path."""
    return "".join(
        [
            "." if thing is None else "#" if thing.type == "wall" else object_code(thing)
            for thing in game.grid.grid
        ]
    )


def task_id(level: str, game: Game, grid: str) -> str:
    """The task id of a level that was just reset: a hash of all that distinguishes the task. `grid`
    is its `grid_code`."""
    x, y = game.agent_pos
    pose = [int(x), int(y), int(game.agent_dir)]
    return content_id("babyai", [level, game.width, grid, pose, game.mission])


def state_hash(game: Game, grid: str) -> str:
    """Hash of the hidden state: grid (`grid_code`), pose, carried object, progress of the goal."""
    x, y = game.agent_pos
    load = object_code(game.carrying)
    text = f"{grid}|{x},{y},{game.agent_dir}|{load}|{_progress(game.instrs)}|{game.mission}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _progress(instruction: Any) -> str:
    """Which parts of a compound goal are done; empty for a simple goal."""
    if not hasattr(instruction, "instr_a"):
        return ""
    first, second = _progress(instruction.instr_a), _progress(instruction.instr_b)
    return f"({instruction.a_done}{first},{instruction.b_done}{second})"
