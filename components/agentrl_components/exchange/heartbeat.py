"""Heartbeats in the store: wait for the other process of a run for as long as it is alive.

Each side writes a value that changes every few seconds. A reader only looks at whether the value
changed, by its own clock, so the clocks of two machines need not agree.

The stage `provision` deletes the heartbeats of earlier attempts, and each side announces itself
when its process starts. So a side without a value has not started in this attempt: its pod may wait
for a node, an image or a quota, for hours.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, TypeVar, get_args

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
NOTE_EVERY_S = 300.0
"""Time between two notes that the other process has not started."""


def forget(store: Store) -> None:
    """Delete the heartbeats of earlier attempts. Called before either side of an attempt starts."""
    for role in get_args(Role):
        store.delete(keys.heartbeat(role))


def announce(store: Store, role: Role) -> None:
    """Send one heartbeat: the process in `role` has started. It may end before `Heartbeat` sends,
    for instance because its model does not fit in memory, and be missed nevertheless."""
    store.replace(keys.heartbeat(role), f"{time.time_ns()} started".encode())


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
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`timeout_s` without a heartbeat mean that the other process is dead, if it has started:
        longer than a pod takes to be rescheduled and to load its model. Heartbeats are sent, and
        looked at, every `interval_s` seconds; `sleep` and `clock` are those of a wait. `note` is
        called with a message now and then while the other process has not started."""
        self._store, self._role = store, role
        self._other: Role = "update" if role == "rollout" else "rollout"
        self._timeout_s, self._interval_s = timeout_s, interval_s
        self._sleep, self._clock, self._note = sleep, clock, note
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._send, name="heartbeat", daemon=True)
        self._last_value = b""
        self._began = self._noted_at = self._changed_at = self._checked_at = clock()

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
        Raises `RunError` if the other process has failed for good, or has started and sends no
        heartbeat for too long. One that has not started yet is waited for without a limit."""
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
        if value and value != self._last_value:
            self._last_value, self._changed_at = value, now
        elif self._last_value:
            if now - self._changed_at > self._timeout_s:
                raise RunError(f"{self._other} has sent no heartbeat for {self._timeout_s:g} s")
        elif now - self._noted_at >= NOTE_EVERY_S:
            self._noted_at = now
            minutes = (now - self._began) / 60
            self._note(
                f"{self._other} has not started for {minutes:.0f} min: its pod may wait for a "
                f"node, an image or a quota; {self._role} waits for it"
            )

    def _send(self) -> None:
        began = time.time_ns()
        for count in itertools.count():
            # While the store is unreachable, whoever waits for it reports that.
            with contextlib.suppress(StoreError):
                self._store.replace(keys.heartbeat(self._role), f"{began} {count}".encode())
            if self._closed.wait(self._interval_s):
                return
