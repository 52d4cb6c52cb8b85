"""Paths as AgentGym finds them: breadth-first over poses, in primitive actions.

Three properties differ from `pathfinding` and are kept, because the number of primitive actions is
part of the score and the cells that a path crosses are part of the game:

- Cells that are not visible are free, and so are doors, whatever their state.
- The area is the view, and what borders on it behind the agent or to its right, where coordinates
  are lower there: of an agent that looks east, the column behind; south, the row behind and the
  column to the right; west, the row to the right; north, nothing.
- Among paths of equal length, the one whose last pose was reached last wins, not first.
"""

from __future__ import annotations

from collections.abc import Callable

from agentrl_envs.environments.babyai.field_of_view import SIZE, STEP
from agentrl_envs.environments.babyai.pathfinding import FORWARD, LEFT, RIGHT
from agentrl_envs.environments.babyai.published.sight import Cell, Sight

Pose = tuple[Cell, int]


class Routes:
    """Every pose that can be reached from where the agent is."""

    def __init__(self, sight: Sight) -> None:
        self._blocked = sight.blocked
        self._columns, self._rows = _area(sight)
        start: Pose = (sight.here, sight.heading)
        self._origin: dict[Pose, tuple[Pose, int]] = {}
        self._order: list[Pose] = []
        """Poses in the order in which they are reached first."""
        known: set[Pose] = set()
        # `first` and `last` are one distance's poses, ordered by their first and last discovery.
        first: list[Pose] = [start]
        last: list[Pose] = [start]
        while first:
            known.update(first)
            self._order += first
            found = dict.fromkeys(
                pose for each in first for pose, _ in self._next(each) if pose not in known
            )
            latest: dict[Pose, tuple[Pose, int]] = {}
            for each in last:
                for pose, action in self._next(each):
                    if pose not in known:
                        latest.pop(pose, None)
                        latest[pose] = (each, action)
            self._origin |= latest
            first, last = list(found), list(latest)

    def to(self, target: Cell) -> tuple[int, ...] | None:
        """The actions to the first pose in the cell `target`; None if there is none."""
        return self._first(lambda pose: pose[0] == target)

    def facing(self, target: Cell) -> tuple[int, ...] | None:
        """The actions to the first pose that faces `target`; empty if the agent faces it already,
        None if there is none."""
        return self._first(lambda pose: _ahead(pose) == target)

    def _first(self, fits: Callable[[Pose], bool]) -> tuple[int, ...] | None:
        pose = next(filter(fits, self._order), None)
        if pose is None:
            return None
        actions: list[int] = []
        while pose in self._origin:
            pose, action = self._origin[pose]
            actions.append(action)
        return tuple(reversed(actions))

    def _next(self, pose: Pose) -> list[tuple[Pose, int]]:
        """The neighbours of a pose with the actions that lead there: forward, left, right."""
        cell, heading = pose
        turned = [((cell, (heading - 1) % 4), LEFT), ((cell, (heading + 1) % 4), RIGHT)]
        ahead = _ahead(pose)
        inside = ahead[0] in self._columns and ahead[1] in self._rows
        if inside and ahead not in self._blocked:
            return [((ahead, heading), FORWARD), *turned]
        return turned


def _ahead(pose: Pose) -> Cell:
    (x, y), (dx, dy) = pose[0], STEP[pose[1]]
    return x + dx, y + dy


def _area(sight: Sight) -> tuple[range, range]:
    """Columns and rows of the search. One corner is the far left cell of the view. The other lies
    beyond the view's near right cell; it is excluded where its coordinate is the larger one."""
    (x, y), (fx, fy) = sight.here, STEP[sight.heading]
    rx, ry = -fy, fx
    half = SIZE // 2
    far_left = x + fx * (SIZE - 1) - rx * half, y + fy * (SIZE - 1) - ry * half
    beyond = x - fx + rx * (half + 1), y - fy + ry * (half + 1)
    columns, rows = (
        range(high, low + 1) if high < low else range(low, high)
        for low, high in zip(far_left, beyond, strict=True)
    )
    return columns, rows
