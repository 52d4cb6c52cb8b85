"""TextWorld (arXiv 1806.11532): generated text adventures, by the package `textworld`.

A task is the seed and the size of a game. A game is generated and compiled when it is first played,
which takes seconds, and kept in a cache that the processes of a machine share.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.cache_folder import cache_folder
from agentrl_envs.environments.react_reply import action_of
from agentrl_envs.errors import TaskError
from agentrl_envs.task_list import TaskList

INSTRUCTIONS = """\
You play a text adventure. You are given an objective, and each turn you are told what happened. \
Answer with one command, such as "go east", "open chest", "take key from table" or "inventory". \
Answer in this form:
Thought:
<your thought>

Action:
<your command>"""
INVALID, OVER = "You cannot do that.", "The game is over."

_LOCK = threading.Lock()
"""TextWorld's generator and its parser of commands share state between threads."""


class TextWorldOptions(BaseModel):
    """Options of the `textworld` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    rooms: Annotated[int, Field(ge=1, le=50)] = 3
    """Rooms of a game."""
    objects: Annotated[int, Field(ge=1, le=100)] = 5
    """Objects of a game."""
    quest: Annotated[int, Field(ge=1, le=30)] = 3
    """Commands that the objective needs."""
    games: Annotated[int, Field(ge=10, le=100_000)] = 100
    """Number of games; about one in five is held out."""
    turn_limit: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Commands after which the episode is truncated."""


class TextWorldTasks(TaskList):
    """A task for each seed."""

    name = "textworld"
    waits = True
    """A game is compiled by another program, which takes seconds."""

    def __init__(self, options: TextWorldOptions | None = None) -> None:
        self.options = options or TextWorldOptions()
        super().__init__(self._payloads())

    def instructions(self) -> str:
        return INSTRUCTIONS

    def environment(self) -> TextWorldSession:
        return TextWorldSession(self)

    def category(self, payload: Mapping[str, Any]) -> str:
        """The number of commands that the objective needs."""
        return f"{payload['quest']} commands"

    def _payloads(self) -> Iterator[Mapping[str, Any]]:
        own, made_by = self.options, version("textworld")
        for seed in range(own.games):
            size = {"rooms": own.rooms, "objects": own.objects, "quest": own.quest}
            yield {**size, "seed": seed, "textworld": made_by}


class TextWorldSession:
    """One session. The score is TextWorld's, as a share of the largest."""

    def __init__(self, tasks: TextWorldTasks) -> None:
        self._tasks = tasks
        self._env: Any = None
        self._state: Any = None

    def reset(self, task: Task) -> Observation:
        """Start the game of a task. Raises `TaskError` for a task of another task set."""
        content = self._tasks.content(task)
        self.close()
        with _LOCK:
            self._env, self._state = _start(game_file(task.id, content))
        self._turns, self._score = 0, 0.0
        text = str(self._state.feedback)
        return self._seen(text[max(0, text.find(str(self._state.objective))) :])

    def step(self, action: str) -> Step:
        """Execute a command. Raises `TaskError` before the first reset."""
        if self._env is None:
            raise TaskError("textworld: no game is started; call reset with a task first")
        if self._ended:
            return self._step(OVER, wellformed=False)
        command = action_of(action)
        if command not in self._commands():
            return self._step(INVALID, wellformed=False)
        self._turns += 1
        with _LOCK:
            self._state, _, _ = self._env.step(command)
        return self._step(str(self._state.feedback), wellformed=True)

    def close(self) -> None:
        """End the game."""
        if self._env is not None:
            with _LOCK:
                self._env.close()
            self._env = None

    @property
    def _finished(self) -> bool:
        return bool(self._state.won or self._state.lost)

    @property
    def _ended(self) -> bool:
        return self._finished or self._turns >= self._tasks.options.turn_limit

    def _step(self, text: str, *, wellformed: bool) -> Step:
        won = bool(self._state.won)
        score = 1.0 if won else min(1.0, self._state.score / max(1, self._state.max_score))
        reward, self._score = score - self._score, score
        return Step(
            observation=self._seen(text),
            reward=reward,
            terminated=self._finished,
            truncated=self._ended and not self._finished,
            wellformed=wellformed,
            success=won,
            raw_score=float(self._state.score),
        )

    def _seen(self, text: str) -> Observation:
        return Observation(text=_plain(text), admissible=() if self._ended else self._commands())

    def _commands(self) -> tuple[str, ...]:
        return tuple(sorted({action_of(command) for command in self._state.admissible_commands}))


def game_file(task_id: str, content: Mapping[str, Any]) -> Path:
    """The compiled game of a task; generates it if it is not in the cache."""
    folder = cache_folder("textworld")
    place = folder / f"{task_id}.z8"
    described = place.with_suffix(".json")  # TextWorld finds a game's commands and quests in it
    if place.exists() and described.exists():
        return place
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = _compile(content, Path(scratch) / place.name)
        os.replace(made.with_suffix(".json"), described)
        shutil.move(made, place)
    return place


def _compile(content: Mapping[str, Any], place: Path) -> Path:
    from textworld import GameOptions
    from textworld.generator import compile_game, make_game

    options = GameOptions()
    options.seeds = content["seed"]
    options.nb_rooms, options.nb_objects = content["rooms"], content["objects"]
    options.quest_length = content["quest"]
    options.path = str(place)
    compile_game(make_game(options), options)
    return place


def _start(place: Path) -> tuple[Any, Any]:
    import textworld

    asked = ("admissible_commands", "feedback", "won", "lost", "score", "max_score", "objective")
    with warnings.catch_warnings():  # Jericho's, that it does not know the score of generated games
        warnings.simplefilter("ignore")
        env = textworld.start(str(place), textworld.EnvInfos(**dict.fromkeys(asked, True)))
        return env, env.reset()


def _plain(text: str) -> str:
    """The text without the status line that follows the prompt, and without empty lines."""
    lines = (line.rstrip() for line in text.partition("\n>")[0].splitlines())
    return "\n".join(line for line in lines if line)
