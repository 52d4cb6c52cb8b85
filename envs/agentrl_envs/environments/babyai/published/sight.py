"""What AgentGym reads from minigrid's 7 x 7 image: objects and barriers by position in the grid."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentrl_envs.environments.babyai.field_of_view import SIZE, STEP, Game

Cell = tuple[int, int]
"""A position in the grid: column, row."""

_KINDS = {2: "wall", 4: "door", 5: "key", 6: "ball", 7: "box"}
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_STATES = ("open", "closed", "locked")


class Seen(NamedTuple):
    """One object or wall in view."""

    kind: str
    name: str
    """`red ball`, `yellow closed door`, `grey wall`."""
    color: str
    cell: Cell
    distance: int
    """Manhattan distance in steps."""
    ahead: int
    right: int
    """Steps to the right; negative is left."""


class Sight(NamedTuple):
    """The view at one moment."""

    here: Cell
    heading: int
    """minigrid's direction: 0 east, 1 south, 2 west, 3 north."""
    things: tuple[Seen, ...]
    """Objects without walls, nearest first; ties by row, farthest first, then left to right."""
    blocked: frozenset[Cell]
    """Cells that a path may not cross: visible walls, boxes, balls and keys. Doors, even locked
    ones, and cells that are not visible are not among them."""
    barrier: tuple[int, str] | None
    """The nearest visible wall or box straight ahead, with its distance in steps."""
    empty: bool
    """Neither an object nor a wall is visible."""
    load: Any
    """The minigrid object that the agent carries, or None."""


def see(game: Game, image: Any) -> Sight:
    """The view of `game`; `image` [7, 7, 3] is minigrid's observation of it."""
    x, y = (int(value) for value in game.agent_pos)
    fx, fy = STEP[game.agent_dir]
    rx, ry = -fy, fx
    found: list[Seen] = []
    for row in range(SIZE):
        ahead = SIZE - 1 - row
        for column in range(SIZE):
            right = column - SIZE // 2
            kind = _KINDS.get(int(image[column, row, 0]))
            cell = (x + fx * ahead + rx * right, y + fy * ahead + ry * right)
            if kind is None or cell == (x, y) or min(cell) < 0:
                continue
            color = _COLORS[int(image[column, row, 1])]
            state = f" {_STATES[int(image[column, row, 2])]}" if kind == "door" else ""
            distance = ahead + abs(right)
            found.append(Seen(kind, f"{color}{state} {kind}", color, cell, distance, ahead, right))
    found.sort(key=lambda each: each.distance)
    straight = ((s.ahead, s.kind) for s in found if not s.right and s.kind in ("wall", "box"))
    return Sight(
        here=(x, y),
        heading=int(game.agent_dir),
        things=tuple(each for each in found if each.kind != "wall"),
        blocked=frozenset(each.cell for each in found if each.kind != "door"),
        barrier=min(straight, default=None),
        empty=not found,
        load=game.carrying,
    )
