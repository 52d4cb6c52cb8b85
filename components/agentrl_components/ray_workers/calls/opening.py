"""What people are told while actors open, which takes minutes with large models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

FIRST_S = 60.0
"""Time to the first note. Each further one comes after twice the time of the one before."""


class OpeningNotes:
    """Reports how many of `count` actors have started, until all have. A `check` of `results`."""

    def __init__(
        self,
        role: str,
        count: int,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role, self._count, self._note, self._clock = role, count, note, clock
        self._began, self._next_s = clock(), FIRST_S

    def __call__(self, waiting: Sequence[Any]) -> None:
        """`waiting`: the calls of actors that have not opened."""
        passed = self._clock() - self._began
        if passed < self._next_s:
            return
        self._next_s *= 2
        done = self._count - len(waiting)
        self._note(f"{done} of {self._count} {self._role} have opened the model in {passed:.0f} s")
