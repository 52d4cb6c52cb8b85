"""The calls that were sent to one worker process, which makes them one after another.

A call behind others has not begun, so only the first one is watched, and only its time counts
towards the limit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from agentrl_envs.calls.watch import Call, CallWatch


class CallQueue:
    """Calls under way, in their order. `add` must be called on the event loop."""

    def __init__(
        self, watch: CallWatch, limit_s: float | None, on_overdue: Callable[[Call], None]
    ) -> None:
        """`on_overdue` is called on the event loop with a call that has taken longer than `limit_s`
        seconds. None: calls may take any time."""
        self._watch = watch
        self._limit_s = limit_s
        self._on_overdue = on_overdue
        self._lock = threading.Lock()
        self._calls: dict[Future[Any], Call] = {}
        self._check_due = False

    def add(self, future: Future[Any], call: Call, *, limited: bool = True) -> None:
        """A call whose result `future` gets. `limited`: its time is limited."""
        with self._lock:
            self._calls[future] = call
            if len(self._calls) == 1:
                call.begin()
        future.add_done_callback(self._end)
        if limited and self._limit_s is not None and not self._check_due:
            self._check_after(self._limit_s)

    def _end(self, future: Future[Any]) -> None:
        """Called in the thread that sets the result."""
        with self._lock:
            self._calls.pop(future).end()
            first = self._first()
            if first is not None and first.began is None:
                first.begin()

    def _first(self) -> Call | None:
        return next(iter(self._calls.values()), None)

    def _check_after(self, seconds: float) -> None:
        self._check_due = True
        asyncio.get_running_loop().call_later(seconds, self._check)

    def _check(self) -> None:
        assert self._limit_s is not None
        self._check_due = False
        with self._lock:
            first = self._first()
        if first is None or first.began is None:
            return
        left_s = first.began + self._limit_s - self._watch.clock()
        if left_s > 0:
            self._check_after(left_s)
        else:
            self._on_overdue(first)
