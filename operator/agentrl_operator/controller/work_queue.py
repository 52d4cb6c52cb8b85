"""Runs that wait to be looked at: each at most once, each by one worker at a time."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Key = TypeVar("Key")


class WorkQueue(Generic[Key]):
    """A queue of keys. One that is added while it is worked on comes again afterwards."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._taken: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Look at this one soon."""
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._taken:
            self._ready.put_nowait(key)

    def later(self, key: Key, delay_s: float) -> None:
        """Look at this one then. Replaces the time that was set before."""
        self.cancel(key)
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay_s, self._due, key)

    def cancel(self, key: Key) -> None:
        """Do not look at this one at the time that was set."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def take(self) -> Key:
        """The next one; to be given back with `done`."""
        key = await self._ready.get()
        self._waiting.discard(key)
        self._taken.add(key)
        return key

    def done(self, key: Key) -> None:
        """It may be taken again."""
        self._taken.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)
