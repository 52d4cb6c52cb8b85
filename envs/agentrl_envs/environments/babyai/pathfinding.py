"""Shortest paths inside the view, in primitive actions.

A pose is `cell * 4 + heading`, with headings relative to the current one: 0 ahead, 1 right, 2 back,
3 left. The functions are pure and their results cached, because the same views recur often.
"""

from __future__ import annotations

from functools import lru_cache

from agentrl_envs.environments.babyai.field_of_view import CELLS, HALF, HERE, SIZE

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
"""minigrid's primitive actions."""

_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
_UNREACHED, _START = 255, 254


def _next_cell(cell: int, heading: int) -> int:
    """The cell one step further; -1: outside the view."""
    ahead, side = cell // SIZE + _STEPS[heading][0], cell % SIZE - HALF + _STEPS[heading][1]
    return ahead * SIZE + side + HALF if 0 <= ahead < SIZE and -HALF <= side <= HALF else -1


_NEXT = tuple(_next_cell(pose // 4, pose % 4) for pose in range(4 * CELLS))
_FACING = tuple(
    tuple(pose for pose in range(4 * CELLS) if _NEXT[pose] == cell) for cell in range(CELLS)
)


@lru_cache(maxsize=1 << 14)
def _search(free: int) -> tuple[bytes, bytes]:
    """Breadth-first search from the agent. By pose: the last action of the path, and the order of
    discovery."""
    came, rank = bytearray([_UNREACHED] * 4 * CELLS), bytearray(4 * CELLS)
    queue = [HERE * 4]
    came[queue[0]] = _START
    for order, pose in enumerate(queue):
        rank[pose] = order
        cell, heading = pose // 4, pose % 4
        ahead = _NEXT[pose]
        if ahead >= 0 and free >> ahead & 1 and came[ahead * 4 + heading] == _UNREACHED:
            came[ahead * 4 + heading] = FORWARD
            queue.append(ahead * 4 + heading)
        for turn, turned in ((LEFT, (heading - 1) % 4), (RIGHT, (heading + 1) % 4)):
            if came[cell * 4 + turned] == _UNREACHED:
                came[cell * 4 + turned] = turn
                queue.append(cell * 4 + turned)
    return bytes(came), bytes(rank)


@lru_cache(maxsize=1 << 16)
def approach(free: int, target: int) -> tuple[int, ...] | None:
    """The shortest path to a pose that faces `target`, over the cells `free`; empty if the agent
    already faces it, None if there is no path. Ties: forward before left before right."""
    came, rank = _search(free)
    reached = [pose for pose in _FACING[target] if came[pose] != _UNREACHED]
    if not reached:
        return None
    pose, way = min(reached, key=rank.__getitem__), []
    while (action := came[pose]) != _START:
        way.append(action)
        cell, heading = pose // 4, pose % 4
        if action == FORWARD:
            pose = _NEXT[cell * 4 + (heading + 2) % 4] * 4 + heading
        else:
            pose = cell * 4 + (heading + (1 if action == LEFT else -1)) % 4
    return tuple(reversed(way))
