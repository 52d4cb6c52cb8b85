"""Whether this process may change anything now, by its own clock."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentrl_operator.errors import LeaseError


def clock() -> float:
    """Seconds that have passed, with those that the machine slept through."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class Term:
    """Has no end until it is given one. Who asks a neighbour for a change asks this first, at the
    last moment: a process that was frozen for a while does not know it yet."""

    def __init__(self, clock: Callable[[], float] = clock) -> None:
        self.until = math.inf
        self._clock = clock
        self._closed = False
        self._under_way = 0
        self._quiet = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether a change may be asked for."""
        return not self._closed and self._clock() < self.until

    @contextmanager
    def change(self, what: str) -> Iterator[None]:
        """It is asked for, and its answer awaited, meanwhile. Raises `LeaseError`."""
        if not self.open:
            raise LeaseError(f"{what}: not asked for: this operator acts no more")
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()

    async def close(self, patience_s: float) -> bool:
        """Begin no more changes, and wait for the answers to those under way; whether they came
        in time."""
        self._closed = True
        self._quiet.clear()
        if self._under_way:
            try:
                async with asyncio.timeout(patience_s):
                    await self._quiet.wait()
            except TimeoutError:
                return False
        return True
