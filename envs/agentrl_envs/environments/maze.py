"""Maze, by the rules of LMRL-Gym (arXiv 2311.18232) as AgentGym serves it.

The agent is told where it is, where the goal is, and which walls surround it, and moves by one
cell. A move into a wall changes nothing. Reaching the goal is worth 1 and ends the episode; so does
the last of `turn_limit` moves. Positions are (row, column): `move down` adds 1 to the row.

    The goal is at position 8, 6. Your current position is at position 5, 6. There is a wall above
    you.
    > move down
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.react_reply import action_of
from agentrl_envs.errors import TaskError
from agentrl_envs.task_list import TaskList

Cell = tuple[int, int]

MOVES: Mapping[str, Cell] = {
    "move left": (0, -1),
    "move right": (0, 1),
    "move up": (-1, 0),
    "move down": (1, 0),
}
_SIDES: Mapping[str, Cell] = {
    "to your right": (0, 1),
    "to your left": (0, -1),
    "above you": (-1, 0),
    "below you": (1, 0),
}
"""Where a wall can be, in the order in which walls are told."""

DOUBLE_T = (
    "#############",
    "#.....#.....#",
    "###.#####.###",
    "###.#####.###",
    "###.#####.###",
    "###.......###",
    "######.######",
    "######.######",
    "######.######",
    "#############",
)
"""LMRL-Gym's maze: two T's that meet in a third one. Its goal is the lower end."""
DOUBLE_T_GOAL = (8, 6)

INSTRUCTIONS = """\
Find the way to the goal of a maze in as few moves as possible. Each turn you are told where the \
goal is, where you are, and where there are walls around you. Moving right adds 1 to the second \
number of your position, moving down adds 1 to the first.

The actions are "move up", "move down", "move left" and "move right". Answer in this form:
Thought:
<your thought>

Action:
<your action>"""
SUCCESS, FAILURE, INVALID = "Success", "Failure", "No such action ."


class MazeOptions(BaseModel):
    """Options of the `maze` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    layout: Literal["double_t", "random"] = "double_t"
    """LMRL-Gym's maze with a task for each starting cell, or a maze of its own for each task."""
    mazes: Annotated[int, Field(ge=10, le=100_000)] = 500
    """random: number of tasks."""
    size: Annotated[int, Field(ge=2, le=20)] = 4
    """random: cells on a side; walls lie between them."""
    positions: bool = True
    """Whether positions are told, or the walls only."""
    text: Literal["agentgym", "terse"] = "agentgym"
    """agentgym: with instructions and ReAct replies; terse: without, in a closed vocabulary."""
    turn_limit: Annotated[int, Field(ge=1, le=10_000)] = 50
    """Moves after which the episode is truncated."""


class MazeTasks(TaskList):
    """Mazes with a start and a goal."""

    name = "maze"

    def __init__(self, options: MazeOptions | None = None) -> None:
        self.options = options or MazeOptions()
        super().__init__(_double_t() if self.options.layout == "double_t" else self._random())

    def instructions(self) -> str:
        return INSTRUCTIONS if self.options.text == "agentgym" else ""

    def environment(self) -> MazeSession:
        return MazeSession(self)

    def category(self, payload: Mapping[str, Any]) -> str:
        """The shortest way in moves: up to 5, up to 10 and so on."""
        moves = distance(payload["rows"], tuple(payload["start"]), tuple(payload["goal"]))
        upper = -(-moves // 5) * 5
        return f"{upper - 4} to {upper} moves"

    def vocabulary(self) -> tuple[str, ...] | None:
        if self.options.text == "agentgym":
            return None
        side = max(len(DOUBLE_T[0]), 2 * self.options.size + 1)
        numbers = [f"{n}{mark}" for n in range(side) for mark in ",."]
        told = "The goal is at position Your current There are no walls near you. a wall walls"
        sides = " ".join(f"{where}, {where}." for where in _SIDES)
        fixed = f"{told} {sides} {' '.join(MOVES)} {SUCCESS} {FAILURE} {INVALID}".split()
        return tuple(dict.fromkeys((*fixed, *numbers)))

    def _random(self) -> Iterator[Mapping[str, Any]]:
        for number in range(self.options.mazes):
            rng = Random(f"maze/{self.options.size}/{number}")
            rows = random_maze(self.options.size, rng)
            start, goal = rng.sample(_free_cells(rows), 2)
            yield {"rows": list(rows), "start": list(start), "goal": list(goal)}


class MazeSession:
    """One session."""

    def __init__(self, tasks: MazeTasks) -> None:
        self._tasks = tasks
        self._rows: tuple[str, ...] = ()
        self._moves = 0

    def reset(self, task: Task) -> Observation:
        """Put the agent at the start. Raises `TaskError` for a task of another task set."""
        content = self._tasks.content(task)
        self._rows = tuple(content["rows"])
        self._at: Cell = tuple(content["start"])
        self._goal: Cell = tuple(content["goal"])
        self._moves = 0
        return Observation(text=self._told(), admissible=tuple(MOVES))

    def step(self, action: str) -> Step:
        """Move by one cell. Raises `TaskError` before the first reset."""
        if not self._rows:
            raise TaskError("maze: no task is set up; call reset with a task first")
        limit = self._tasks.options.turn_limit
        move = None if self._solved or self._moves >= limit else MOVES.get(action_of(action))
        if move is None:
            return self._step(f"{INVALID} {self._told()}", wellformed=False)
        self._moves += 1
        self._at = _neighbour(self._rows, self._at, move) or self._at
        text = SUCCESS if self._solved else FAILURE if self._moves >= limit else self._told()
        return self._step(text, reward=float(self._solved))

    def close(self) -> None:
        """Drop the task."""
        self._rows = ()

    @property
    def _solved(self) -> bool:
        return self._at == self._goal

    def _step(self, text: str, *, reward: float = 0.0, wellformed: bool = True) -> Step:
        truncated = not self._solved and self._moves >= self._tasks.options.turn_limit
        over = self._solved or truncated
        hidden = f"{self._rows} {self._goal} {self._at} {over}"
        return Step(
            observation=Observation(text=text, admissible=() if over else tuple(MOVES)),
            reward=reward,
            terminated=self._solved,
            truncated=truncated,
            wellformed=wellformed,
            success=self._solved,
            raw_score=float(self._solved),
            state=hashlib.sha256(hidden.encode()).hexdigest()[:16],
        )

    def _told(self) -> str:
        walls = [w for w, side in _SIDES.items() if not _neighbour(self._rows, self._at, side)]
        wall = f"There are walls {', '.join(walls)}." if walls else "There are no walls near you."
        if len(walls) == 1:
            wall = f"There is a wall {walls[0]}."
        if not self._tasks.options.positions:
            return wall
        (goal_row, goal_column), (row, column) = self._goal, self._at
        return (
            f"The goal is at position {goal_row}, {goal_column}. "
            f"Your current position is at position {row}, {column}. {wall}"
        )


def random_maze(size: int, rng: Random) -> tuple[str, ...]:
    """A maze with one way between any two cells, by a random depth-first walk. `#` is a wall."""
    side = 2 * size + 1
    grid = [["#"] * side for _ in range(side)]
    path = [(1, 1)]
    grid[1][1] = "."
    while path:
        row, column = path[-1]
        steps = [
            (row + 2 * dr, column + 2 * dc, row + dr, column + dc)
            for dr, dc in MOVES.values()
            if 0 < row + 2 * dr < side
            and 0 < column + 2 * dc < side
            and grid[row + 2 * dr][column + 2 * dc] == "#"
        ]
        if not steps:
            path.pop()
            continue
        to_row, to_column, gap_row, gap_column = rng.choice(steps)
        grid[gap_row][gap_column] = grid[to_row][to_column] = "."
        path.append((to_row, to_column))
    return tuple("".join(row) for row in grid)


def distance(rows: Sequence[str], start: Cell, goal: Cell) -> int:
    """The fewest moves from `start` to `goal`. Raises `TaskError` if there is no way."""
    seen, border, moves = {start}, {start}, 0
    while border:
        if goal in border:
            return moves
        near = {_neighbour(rows, cell, move) for cell in border for move in MOVES.values()}
        border = {cell for cell in near if cell is not None} - seen
        seen |= border
        moves += 1
    raise TaskError(f"maze: no way leads from {start} to {goal}; use a task that maze dealt")


def _neighbour(rows: Sequence[str], cell: Cell, move: Cell) -> Cell | None:
    """The cell that a move leads to; None if there is a wall."""
    row, column = cell[0] + move[0], cell[1] + move[1]
    return (row, column) if rows[row][column] == "." else None


def _free_cells(rows: Sequence[str]) -> list[Cell]:
    return [(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell == "."]


def _double_t() -> Iterator[Mapping[str, Any]]:
    for start in _free_cells(DOUBLE_T):
        if start != DOUBLE_T_GOAL:
            yield {"rows": list(DOUBLE_T), "start": list(start), "goal": list(DOUBLE_T_GOAL)}
