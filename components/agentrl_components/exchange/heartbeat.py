"""Heartbeats in the store: wait for the other process of a run for as long as it is alive.

Each side writes a value that changes every few seconds. A reader only looks at whether the value
changed, by its own clock, so the clocks of two machines need not agree.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, TypeVar

from agentrl_components.errors import RunError, StoreError
from agentrl_components.storage import keys
from agentrl_components.storage.records import read_state
from agentrl_components.storage.store import Store

T = TypeVar("T")
Role = Literal["rollout", "update"]
FIRST_DELAY_S = 0.05
"""Delay between the first two polls of a wait; each later one is twice as long."""
MAX_DELAY_S = 1.0
"""Longest delay between two polls. A poll is two requests to the object store, and the other
process may compute for minutes."""


class Heartbeat:
    """Sends this process's heartbeat and watches the other's. A context manager: sends while it is
    open."""

    def __init__(
        self,
        store: Store,
        role: Role,
        *,
        timeout_s: float = 1800.0,
        interval_s: float = 5.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout_s` without a heartbeat mean that the other process is dead: longer than a pod
        takes to be rescheduled and to load its model. Heartbeats are sent, and looked at, every
        `interval_s` seconds; `sleep` and `clock` are those of a wait."""
        self._store, self._role = store, role
        self._other: Role = "update" if role == "rollout" else "rollout"
        self._timeout_s, self._interval_s = timeout_s, interval_s
        self._sleep, self._clock = sleep, clock
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._send, name="heartbeat", daemon=True)
        self._last_value = b""
        self._changed_at = self._checked_at = clock()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join()

    def wait_for(self, condition: Callable[[], T | None]) -> T:
        """Poll `condition` with increasing delays until it returns a value, and return that value.
        Raises `RunError` if the other process has failed for good, or sends no heartbeat for too
        long."""
        delay = FIRST_DELAY_S
        while True:
            value = condition()
            if value is not None:
                return value
            self._check_other()
            self._sleep(delay)
            delay = min(2 * delay, MAX_DELAY_S)

    def _check_other(self) -> None:
        now = self._clock()
        if now - self._checked_at < self._interval_s:
            return
        self._checked_at = now
        state = read_state(self._store)
        if state.final:
            raise RunError(f"{self._other} has failed for good: {state.message}")
        key = keys.heartbeat(self._other)
        value = self._store.get(key) if self._store.exists(key) else b""
        if value != self._last_value:
            self._last_value, self._changed_at = value, now
        elif now - self._changed_at > self._timeout_s:
            raise RunError(f"{self._other} has sent no heartbeat for {self._timeout_s:g} s")

    def _send(self) -> None:
        began = time.time_ns()
        for count in itertools.count():
            # While the store is unreachable, whoever waits for it reports that.
            with contextlib.suppress(StoreError):
                self._store.replace(keys.heartbeat(self._role), f"{began} {count}".encode())
            if self._closed.wait(self._interval_s):
                return
