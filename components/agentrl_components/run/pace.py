"""How long is left, from how long the last iterations took."""

from __future__ import annotations

from collections import deque

REMEMBERED = 20


class Pace:
    """Means over the last iterations."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def left(self, iterations: int, seconds: float) -> float:
        """Seconds that `iterations` more will take, now that one took `seconds`."""
        self._seconds.append(seconds)
        return iterations * sum(self._seconds) / len(self._seconds)
