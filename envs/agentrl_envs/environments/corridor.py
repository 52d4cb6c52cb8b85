"""Corridor: a minimal multi-turn environment, and the reference implementation of the contract.

A corridor of `cells` cells has a door at one end. The agent walks to it, one cell per turn, and
opens it: red and green doors are pushed, blue and yellow ones pulled. The right verb opens the door
and ends the task with reward 1; the wrong one jams it and ends the task with reward 0. Every task
can be solved in at most four turns, and every turn affects those after it.

    corridor 5 red door left 2      left, right
    corridor 5 red door left 1      left, right
    corridor 5 red door here        push, pull
    door opens                      (terminated, reward 1)

The environment is deterministic, has a closed vocabulary and costs microseconds. It ends after
`turns` valid actions (truncated). A policy that picks admissible actions at random solves 22 % of
the tasks in that time.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_envs.env import Observation, Split, Step, Task, content_id, split_of
from agentrl_envs.errors import TaskError

NAME = "corridor"

VERBS = {"red": "push", "green": "push", "blue": "pull", "yellow": "pull"}
"""The verb that opens a door, by its colour."""

SIDES = ("left", "right")
FEWEST_CELLS, MOST_CELLS = 4, 8
LONGEST_WALK = 3
INSTRUCTIONS = "walk left or right to the door then push or pull it"
NOT_AN_ACTION = "not an action here . say one of"


class CorridorOptions(BaseModel):
    """Options of the `corridor` environment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: int = Field(default=6, ge=1, le=1000)
    """Valid actions after which the episode is truncated."""


class CorridorPayload(BaseModel):
    """The payload of a corridor task."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    cells: int = Field(ge=2, le=100)
    start: int = Field(ge=0)
    side: str = Field(pattern="^(left|right)$")
    colour: str = Field(pattern="^(red|green|blue|yellow)$")


@dataclass(slots=True, kw_only=True)
class _Place:
    """The state of a session."""

    cells: int
    door: int
    colour: str
    at: int
    turns: int = 0
    over: bool = False
    truncated: bool = False


class CorridorTasks:
    """All corridor tasks by split: 120, of which about one in five is held out."""

    name = NAME

    def __init__(self, options: CorridorOptions | None = None) -> None:
        self._options = options or CorridorOptions()
        dealt: dict[Split, list[Task]] = {"train": [], "heldout": []}
        for task in sorted(_all_tasks(), key=lambda each: each.id):
            dealt[split_of(task.id)].append(task)
        self._tasks = dealt

    def instructions(self) -> str:
        """One sentence, in the closed vocabulary."""
        return INSTRUCTIONS

    def size(self, split: Split) -> int:
        """Number of tasks in the split."""
        return len(self._tasks[split])

    def task(self, split: Split, index: int) -> Task:
        """The task at `index`, modulo the split's size."""
        tasks = self._tasks[split]
        return tasks[index % len(tasks)]

    def environment(self) -> CorridorEnvironment:
        """A new session."""
        return CorridorEnvironment(turns=self._options.turns)

    def vocabulary(self) -> tuple[str, ...]:
        """Every word of the corridor, sorted."""
        fixed = f"{INSTRUCTIONS} {NOT_AN_ACTION} corridor door here opens jams left right push pull"
        numbers = (str(number) for number in range(1, MOST_CELLS + 1))
        return tuple(sorted({*fixed.split(), *VERBS, *numbers}))


class CorridorEnvironment:
    """One session. A reply is an action if it is one of the admissible words, alone."""

    def __init__(self, *, turns: int = 6) -> None:
        self._turns = turns
        self._place: _Place | None = None

    def reset(self, task: Task) -> Observation:
        """Set up the corridor. Raises `TaskError` if the payload is not this task's."""
        place = _place_of(task)
        self._place = place
        return _seen(place)

    def step(self, action: str) -> Step:
        """Walk, push or pull. Raises `TaskError` before the first reset."""
        place = self._place
        if place is None:
            raise TaskError("session: no task is set up; call reset with a task first")
        word = action.strip().lower()
        allowed = () if place.truncated else _admissible(place)
        if word not in allowed:
            return _step(
                place,
                Observation(text=" ".join((NOT_AN_ACTION, *allowed)), admissible=allowed),
                wellformed=False,
                terminated=place.over,
                truncated=place.truncated,
            )
        place.turns += 1
        if word in SIDES:
            place.at += -1 if word == "left" else 1
            place.truncated = place.turns >= self._turns
            return _step(place, _seen(place), truncated=place.truncated)
        place.over = True
        opened = word == VERBS[place.colour]
        ending = Observation(text="door opens" if opened else "door jams", admissible=())
        return _step(place, ending, success=opened, terminated=True)

    def close(self) -> None:
        """Drop the task."""
        self._place = None


def _all_tasks() -> list[Task]:
    tasks = []
    for cells, side, colour, walk in itertools.product(
        range(FEWEST_CELLS, MOST_CELLS + 1), SIDES, VERBS, range(1, LONGEST_WALK + 1)
    ):
        start = walk if side == "left" else cells - 1 - walk
        payload = {"cells": cells, "start": start, "side": side, "colour": colour}
        tasks.append(Task(id=content_id(NAME, payload), category=f"walk-{walk}", payload=payload))
    return tasks


def _place_of(task: Task) -> _Place:
    try:
        given = CorridorPayload.model_validate(dict(task.payload))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "payload"
        raise TaskError(
            f"payload.{field}: {first['msg']}; use a task that a corridor task set dealt"
        ) from None
    if task.id != content_id(NAME, dict(task.payload)):
        raise TaskError(
            f"task {task.id}: its payload belongs to {content_id(NAME, dict(task.payload))}; use a "
            "task that a corridor task set dealt"
        )
    if given.start >= given.cells:
        raise TaskError(
            f"payload.start: cell {given.start} is outside a corridor of {given.cells} cells; "
            f"use 0 to {given.cells - 1}"
        )
    door = 0 if given.side == "left" else given.cells - 1
    return _Place(cells=given.cells, door=door, colour=given.colour, at=given.start)


def _admissible(place: _Place) -> tuple[str, ...]:
    if place.over:
        return ()
    walks = [side for side, wall in (("left", 0), ("right", place.cells - 1)) if place.at != wall]
    return ("push", "pull") if place.at == place.door else tuple(walks)


def _seen(place: _Place) -> Observation:
    walk = place.at - place.door
    where = "here" if walk == 0 else f"{'left' if walk > 0 else 'right'} {abs(walk)}"
    text = f"corridor {place.cells} {place.colour} door {where}"
    return Observation(text=text, admissible=_admissible(place))


def _step(
    place: _Place,
    observation: Observation,
    *,
    wellformed: bool = True,
    success: bool = False,
    terminated: bool = False,
    truncated: bool = False,
) -> Step:
    reward = 1.0 if success else 0.0
    hidden = f"{place.cells} {place.door} {place.colour} {place.at} {place.over}"
    return Step(
        observation=observation,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        wellformed=wellformed,
        success=success,
        raw_score=reward,
        state=hashlib.sha256(hidden.encode()).hexdigest()[:16],
    )
