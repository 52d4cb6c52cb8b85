"""What minigrid calls an environment, and what can be done in it.

`Game` is untyped because minigrid has no types. Primitive actions are minigrid's: 0 left, 1 right,
2 forward, 3 pick up, 4 drop, 5 toggle.
"""

from __future__ import annotations

from typing import Any

Game = Any

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)

STEP = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""What one step forward adds to (x, y), by direction: east, south, west, north."""
