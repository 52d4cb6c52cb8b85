"""The agent's field of view: the 7 x 7 cells ahead of it, as far as walls and closed doors allow.

A cell of the view is numbered `ahead * 7 + side + 3`, with `ahead` in 0..6 and `side` in -3..3
(negative is left); the agent is in cell 3 and looks along growing `ahead`. Sets of cells are
integers, one bit a cell.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

Game = Any
"""A minigrid level object. Untyped because minigrid has no types."""

STEP = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Change of (x, y) by one step forward, by direction: east, south, west, north."""

SIZE = 7
HALF = SIZE // 2
HERE = HALF
CELLS = SIZE * SIZE

_ROW = (1 << SIZE) - 1
_STATES = {(True, False): "open", (False, False): "closed", (False, True): "locked"}


class Thing(NamedTuple):
    """An object in view. A NamedTuple for speed: many are created in each turn."""

    kind: str
    color: str
    state: str
    """`open`, `closed` or `locked` for a door, else empty."""
    ahead: int
    side: int
    """Steps to the right; negative is left."""
    cell: int
    it: Any
    """minigrid's own object."""


class View(NamedTuple):
    """What is visible at one moment."""

    things: tuple[Thing, ...]
    """Sorted by walking distance, then farther rows first, then left to right."""
    free: int
    """Bit set of the visible cells that can be walked on, including the agent's own."""
    wall_ahead: int | None
    """Steps to the wall straight ahead; None: no wall is visible there."""
    front: Any
    """The minigrid object in the cell ahead, or None."""
    load: Any
    """The minigrid object that the agent carries, or None."""


class _Beyond:
    """Stands for cells outside the grid, which look like walls."""

    type = "wall"


def _offsets(direction: int) -> tuple[tuple[int, int], ...]:
    (fx, fy), (rx, ry) = STEP[direction], STEP[(direction + 1) % 4]
    return tuple(
        (ahead * fx + side * rx, ahead * fy + side * ry)
        for ahead in range(SIZE)
        for side in range(-HALF, HALF + 1)
    )


_OFFSETS = tuple(_offsets(direction) for direction in range(4))
_BEYOND = _Beyond()


@cache
def _spread(seen: int, clear: int) -> tuple[int, int]:
    """Visibility in one row by minigrid's rule: visibility spreads along transparent cells to both
    sides and, from each, ahead and diagonally. Takes the cells lit by the row before and the
    transparent cells; returns the visible cells of this row and the cells lit in the next row."""
    following = 0
    for i in range(SIZE - 1):
        if seen & clear & 1 << i:
            seen |= 2 << i
            following |= 3 << i
    for i in range(SIZE - 1, 0, -1):
        if seen & clear & 1 << i:
            seen |= 1 << i >> 1
            following |= 3 << i >> 1
    return seen, following


def visible(clear: int) -> int:
    """Bit set of the visible cells, given the bit set of transparent cells."""
    lit, result = 1 << HERE, 0
    for row in range(SIZE):
        seen, lit = _spread(lit, clear >> SIZE * row & _ROW)
        result |= seen << SIZE * row
    return result


def look(game: Game) -> View:
    """The agent's view now."""
    x, y = int(game.agent_pos[0]), int(game.agent_pos[1])
    grid, width, height = game.grid.grid, game.width, game.height
    clear = free = 0
    named: list[tuple[int, Any]] = []
    walls: list[int] = []
    front: Any = None
    for cell, (dx, dy) in enumerate(_OFFSETS[game.agent_dir]):
        i, j = x + dx, y + dy
        it: Any = grid[j * width + i] if 0 <= i < width and 0 <= j < height else _BEYOND
        if it is None:
            clear |= 1 << cell
            free |= 1 << cell
            continue
        if cell == SIZE + HERE:
            front = it
        if it.type == "wall":
            if cell % SIZE == HERE:
                walls.append(cell)
        else:
            if it.type != "door" or it.is_open:
                clear |= 1 << cell
            if it.can_overlap():
                free |= 1 << cell
            if cell != HERE:
                named.append((cell, it))
    seen = visible(clear)
    things = [_thing(cell, it) for cell, it in named if seen >> cell & 1]
    things.sort(key=lambda thing: (thing.ahead + abs(thing.side), -thing.ahead, thing.side))
    wall = next((cell // SIZE for cell in walls if seen >> cell & 1), None)
    return View(tuple(things), free & seen, wall, front, game.carrying)


def _thing(cell: int, it: Any) -> Thing:
    state = _STATES[it.is_open, it.is_locked and not it.is_open] if it.type == "door" else ""
    return Thing(it.type, it.color, state, cell // SIZE, cell % SIZE - HALF, cell, it)
