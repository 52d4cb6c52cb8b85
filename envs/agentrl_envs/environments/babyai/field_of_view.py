"""What the agent sees: the 7 x 7 cells before it, as far as walls and closed doors let it look.

A cell of the view is numbered `ahead * 7 + side + 3`, with `ahead` in 0..6 and `side` in -3..3
(negative is left); the agent is in cell 3 and looks along growing `ahead`. Sets of cells are
integers, one bit a cell.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from agentrl_envs.environments.babyai.game import STEP, Game

SIZE = 7
HALF = SIZE // 2
HERE = HALF
CELLS = SIZE * SIZE

_ROW = (1 << SIZE) - 1
_STATES = {(True, False): "open", (False, False): "closed", (False, True): "locked"}


class Thing(NamedTuple):
    """Something in view that has a name. (A tuple: many are made each turn.)"""

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
    """One look."""

    things: tuple[Thing, ...]
    """By walking distance; farther rows first, then left to right, where that is equal."""
    free: int
    """Cells that are seen and can be walked on, the agent's own among them."""
    wall_ahead: int | None
    """Steps to a wall straight ahead, when one is seen."""
    front: Any
    """What lies in the next cell (minigrid's object), or None."""
    load: Any
    """What the agent carries (minigrid's object), or None."""


class _Beyond:
    """What lies outside the grid looks like a wall."""

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
    """Light in one row: cells lit from the row before -> cells lit here, cells lit in the next row.
    It runs along clear cells to both sides and, from each, ahead and diagonally (minigrid's rule).
    """
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
    """The cells that are seen, given the cells that can be looked through."""
    lit, result = 1 << HERE, 0
    for row in range(SIZE):
        seen, lit = _spread(lit, clear >> SIZE * row & _ROW)
        result |= seen << SIZE * row
    return result


def look(game: Game) -> View:
    """What the agent sees now."""
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
