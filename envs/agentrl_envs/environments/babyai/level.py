"""BabyAI levels: construction, content hashes and state hashes."""

from __future__ import annotations

import hashlib
import threading
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from agentrl_envs.env import Task, content_id, in_split
from agentrl_envs.environments.babyai.field_of_view import Game
from agentrl_envs.environments.babyai.options import LEVELS
from agentrl_envs.errors import TaskError

MINIGRID = version("minigrid")
"""A world is a function of the seed and of minigrid's version."""
_KEPT = 1024
"""Worlds that are kept, of about 3 KB each. The episodes of a group play the same one."""


def build(level: str) -> Game:
    """A level object, reused by `reset(seed=...)`. Raises `TaskError` for an unknown level."""
    if level not in LEVELS:
        raise TaskError(f"level: {level!r} is not a BabyAI level; choose among {', '.join(LEVELS)}")
    from agentrl_envs.environments.babyai.headless import headless_level  # slow import

    return headless_level(level)


class Levels:
    """The worlds of tasks. Sessions share it, also those in other threads."""

    def __init__(self) -> None:
        self._games: dict[str, Game] = {}
        """A game of each level, which generates its worlds."""
        self._world = lru_cache(maxsize=_KEPT)(self._generate)
        self._lock = threading.Lock()

    def reset(self, task: Task) -> Game:
        """A game in the world of `task`. Raises `TaskError` for a wrong payload, and if the content
        hash of the world differs from the task id."""
        level, seed = task.payload.get("level"), task.payload.get("seed")
        if level not in LEVELS or not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise TaskError(
                f"task {task.id}: payload {dict(task.payload)!r} is not a BabyAI task; "
                'it must hold a known "level" and a "seed" of 0 or more'
            )
        from agentrl_envs.environments.babyai.headless import restored  # slow import

        with self._lock:
            found, state = self._world(level, seed)
        if task.id not in (in_split(found, "train"), in_split(found, "heldout")):
            raise TaskError(
                f"task {task.id}: {level} with seed {seed} is {found} under minigrid {MINIGRID}; "
                "use the minigrid version that dealt the task"
            )
        return restored(self._games[level], state)

    def _generate(self, level: str, seed: int) -> tuple[str, bytes]:
        """The task id and the saved state of a world."""
        from agentrl_envs.environments.babyai.headless import saved

        if level not in self._games:
            self._games[level] = build(level)
        game = self._games[level]
        game.reset(seed=seed)
        return task_id(level, game, grid_code(game)), saved(game)


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
