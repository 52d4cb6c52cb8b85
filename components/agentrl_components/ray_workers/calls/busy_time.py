"""How long calls have been under way in an actor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class BusyTime:
    """Counts the time in which at least one call is under way."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock, self._calls, self._busy_s = clock, 0, 0.0
        self._counted_from = self._taken_at = clock()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call, for the block. Several may be under way at the same time."""
        self._count()
        self._calls += 1
        try:
            yield
        finally:
            self._count()
            self._calls -= 1

    def take(self) -> tuple[float, float]:
        """Seconds since the last call of this method, and those of them with a call under way."""
        self._count()
        taken = self._counted_from - self._taken_at, self._busy_s
        self._taken_at, self._busy_s = self._counted_from, 0.0
        return taken

    def _count(self) -> None:
        now = self._clock()
        if self._calls:
            self._busy_s += now - self._counted_from
        self._counted_from = now
