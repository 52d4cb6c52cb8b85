"""What people are told while a run waits: until actors open, which takes minutes with large models,
or have room."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

FIRST_S = 60.0
"""Time to the first note. Each further one comes after twice the time of the one before."""


class RepeatedNotes:
    """Tells people something again and again while it is so."""

    def __init__(
        self,
        note: Callable[[str], None],
        first_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The first note comes after `first_s` seconds, each further one after twice the time of
        the one before."""
        self._note, self._next_s, self._clock = note, first_s, clock
        self._began = clock()

    def __call__(self, text: Callable[[float], str]) -> None:
        """To be called all the time; `text` of the seconds that have passed is what to say now."""
        passed = self._clock() - self._began
        if passed >= self._next_s:
            self._next_s *= 2
            self._note(text(passed))


class OpeningNotes:
    """Reports how many of `count` actors have started, until all have. A `check` of `results`."""

    def __init__(
        self,
        role: str,
        count: int,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role, self._count = role, count
        self._notes = RepeatedNotes(note, FIRST_S, clock)

    def __call__(self, waiting: Sequence[Any]) -> None:
        """`waiting`: the calls of actors that have not opened."""
        done = f"{self._count - len(waiting)} of {self._count} {self._role}"
        self._notes(lambda passed: f"{done} have opened the model in {passed:.0f} s")
