"""Lets a process write only while it may be the leader, by its own clock."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentrl_operator.errors import NotLeaderError


def clock() -> float:
    """Seconds since boot, including the time that the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class WriteGate:
    """Every client passes it right before it sends a write.

    The check has to come at the last moment: a process that was frozen for a while does not know
    that its lease has expired. The gate is open without a limit until leader election sets one.
    """

    def __init__(self, clock: Callable[[], float] = clock) -> None:
        self.expires_at = math.inf
        """Time of `clock` from which on writes are refused."""
        self._clock = clock
        self._closed = False
        self._in_flight = 0
        self._idle = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether a write may be sent now."""
        return not self._closed and self._clock() < self.expires_at

    @contextmanager
    def write(self, name: str) -> Iterator[None]:
        """Send a write and wait for its response inside of this context.

        Raises:
            NotLeaderError: the gate is closed. `name` says which write was not sent.
        """
        if not self.is_open:
            raise NotLeaderError(f"{name}: not sent: this process is no longer the leader")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def close(self, timeout_s: float) -> bool:
        """Refuse new writes and wait up to `timeout_s` for the responses to those in flight.
        Returns whether all of them arrived."""
        self._closed = True
        self._idle.clear()
        if self._in_flight:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._idle.wait()
            except TimeoutError:
                return False
        return True
