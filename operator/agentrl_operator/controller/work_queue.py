"""A queue of runs to reconcile, with the semantics of client-go's workqueue."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Key = TypeVar("Key")


class WorkQueue(Generic[Key]):
    """A queue of keys. A key is queued at most once and processed by at most one worker at a time:
    one that is added while it is processed is queued again afterwards."""

    def __init__(self, max_polls_per_second: float) -> None:
        self._max_polls_per_second = max_polls_per_second
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._processing: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._polls: dict[Key, float] = {}
        """Keys that poll, with the intervals in seconds that they want. They stay here while they
        are queued and processed."""

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: Key) -> None:
        """Queue a key, unless it is queued already."""
        if key in self._queued:
            return
        self._queued.add(key)
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_after(self, key: Key, delay_s: float) -> None:
        """Queue a key after a delay. Replaces an earlier delay of the same key."""
        self.cancel(key)
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay_s, self._add_now, key)

    def poll_after(self, key: Key, interval_s: float) -> None:
        """As `add_after`, for a key that polls: if all that poll want more polls a second than the
        maximum, all intervals are longer by the same factor. So a run that stops is still looked at
        more often than one that works."""
        self.cancel(key)
        wanted = 1 / interval_s + sum(1 / one_s for one_s in self._polls.values())
        self.add_after(key, interval_s * max(1.0, wanted / self._max_polls_per_second))
        self._polls[key] = interval_s

    def cancel(self, key: Key) -> None:
        """Cancel the delayed addition of a key, which does not poll any more."""
        self._polls.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def get(self) -> Key:
        """Wait for the next key. The caller must call `done` after it processed the key."""
        key = await self._ready.get()
        self._queued.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: Key) -> None:
        """Mark a key as processed, so that `get` may return it again."""
        self._processing.discard(key)
        if key in self._queued:
            self._ready.put_nowait(key)

    def _add_now(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)
