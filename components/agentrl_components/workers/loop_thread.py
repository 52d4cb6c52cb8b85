"""Event loops for callers that have none.

Connections belong to the loop they were opened on, so every call to an environment has to run on
one loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Loop(Protocol):
    """Runs coroutines, all on one event loop."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on the loop, wait for it and return its result."""
        ...

    def close(self) -> None:
        """Stop the loop. May be called twice."""
        ...


class CallersLoop:
    """Implements `Loop` on the thread that calls it: one call at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        self._loop.close()


class LoopThread:
    """Implements `Loop` on a thread of its own: callers on any other thread, many at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.submit(coroutine).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `coroutine` on the loop, and return its result to come. Coroutines begin in the order
        in which they were submitted."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on the loop, for a caller on another one. If the caller is cancelled, so
        is `coroutine`, and the caller ends when `coroutine` has: what it opened is closed then."""
        caller = asyncio.get_running_loop()
        ended: asyncio.Future[asyncio.Task[T]] = caller.create_future()
        begun: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(coroutine)
            task.add_done_callback(lambda _: caller.call_soon_threadsafe(ended.set_result, task))
            begun.append(task)

        self._loop.call_soon_threadsafe(begin)
        try:
            return (await asyncio.shield(ended)).result()
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(lambda: begun[0].cancel())  # `begin` ran before it
            await asyncio.wait([ended])
            raise

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
