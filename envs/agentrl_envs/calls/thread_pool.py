"""A thread pool that replaces threads whose call hangs.

`concurrent.futures.ThreadPoolExecutor` loses a thread for ever to a call that does not return, and
waits for that call when the process exits. Here a caller that gives up on a call reports it with
`abandon`, and the pool starts another thread in its place when one is needed. The threads are
daemons, so that a hanging call does not keep the process alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from agentrl_envs.calls.stop_iteration import without_stop_iteration
from agentrl_envs.errors import SessionError

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
"""Threads for the calls of one environment. They wait for other programs, so that their number does
not depend on the cores."""

MAX_ABANDONED_PER_THREAD = 4
"""Hanging calls that are compensated by new threads, for each thread of an environment."""

_Item = tuple["Future[Any]", Callable[[], Any]]


class ThreadPool:
    """`size` threads; up to `max_abandoned` hanging calls are compensated by new threads."""

    def __init__(self, size: int, *, max_abandoned: int, name: str) -> None:
        self._size = size
        self._max_abandoned = max_abandoned
        self._name = name
        self._queue: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        self._abandoned: set[Future[Any]] = set()
        self._threads = 0
        self._idle = 0
        self._waiting = 0
        """Calls that no thread has claimed. Not the length of the queue: a thread takes a call from
        it a moment before it stops counting as idle."""
        self._closed = False

    @property
    def abandoned(self) -> int:
        """Number of abandoned calls that have not returned."""
        return len(self._abandoned)

    @property
    def exhausted(self) -> bool:
        """More calls hang than the pool compensates for."""
        return len(self._abandoned) > self._max_abandoned

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the call in a thread. The result may be awaited (`without_stop_iteration`). Raises
        `SessionError` if every thread hangs."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise SessionError("the environment is shutting down")
            if self._limit() <= 0:
                raise SessionError(
                    f"{len(self._abandoned)} calls into the environment have not returned, and no "
                    "thread is left; restart this process"
                )
            self._waiting += 1
            if self._idle < self._waiting and self._threads < self._limit():
                self._start_thread()
            self._queue.put((future, lambda: without_stop_iteration(call, *args, **kwargs)))
        return future

    def abandon(self, future: Future[Any]) -> None:
        """The caller no longer waits for this call. A call that has not started is cancelled, one
        that is running is compensated by another thread."""
        if future.cancel():
            return
        with self._lock:
            if future in self._running:
                self._running.discard(future)
                self._abandoned.add(future)
                self._threads -= 1
                if self._idle < self._waiting and self._threads < self._limit():
                    self._start_thread()

    def close(self) -> None:
        """Cancel the calls that have not started, and end the idle threads."""
        with self._lock:
            self._closed = True
            while not self._queue.empty():
                item = self._queue.get()
                if item is not None:
                    self._waiting -= 1
                    item[0].cancel()
            for _ in range(self._threads):
                self._queue.put(None)

    def _limit(self) -> int:
        """Number of threads that may serve calls now."""
        return self._size - max(0, len(self._abandoned) - self._max_abandoned)

    def _start_thread(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (item := self._next_item()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            with self._lock:
                self._running.add(future)
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001  re-raised by the future's reader
                error = raised
            with self._lock:
                abandoned = future in self._abandoned
                self._abandoned.discard(future)
                self._running.discard(future)
                retires = abandoned and (self._closed or self._threads >= self._limit())
                if abandoned and not retires:
                    self._threads += 1
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
            if retires:
                return

    def _next_item(self) -> _Item | None:
        with self._lock:
            self._idle += 1
        item = self._queue.get()
        with self._lock:
            self._idle -= 1
            self._waiting -= item is not None
        return item


def environment_threads(threads: int = THREADS) -> ThreadPool:
    """Threads for the calls of one environment."""
    return ThreadPool(threads, max_abandoned=threads * MAX_ABANDONED_PER_THREAD, name="environment")
