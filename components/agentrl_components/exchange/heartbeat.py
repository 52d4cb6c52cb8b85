"""The process at the other end of the store: waiting for it, as long as it lives.

Each side writes a pulse that changes every few seconds. Only change is looked at, by the reader's
own clock, so the clocks of two machines need not agree.
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


class Partner:
    """A context manager: while it is open, the partner sees that this side lives."""

    def __init__(
        self,
        store: Store,
        role: Role,
        *,
        patience_s: float = 1800.0,
        pulse_s: float = 5.0,
        poll_s: float = 0.05,
    ) -> None:
        """`patience_s` without a pulse are the partner's end: longer than a pod takes to be
        scheduled anew and to load its model."""
        self._store, self._role = store, role
        self._other: Role = "update" if role == "rollout" else "rollout"
        self._patience_s, self._pulse_s, self._poll_s = patience_s, pulse_s, poll_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._heard = b""
        self._heard_at = self._looked_at = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def until(self, ready: Callable[[], T | None]) -> T:
        """What `ready` answers, once it does. Raises `RunError` when the partner has failed for
        good, or has not been heard for too long."""
        while True:
            answer = ready()
            if answer is not None:
                return answer
            self._listen()
            time.sleep(self._poll_s)

    def _listen(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < self._pulse_s:
            return
        self._looked_at = now
        state = read_state(self._store)
        if state.final:
            raise RunError(f"{self._other} has failed for good: {state.message}")
        key = keys.pulse(self._other)
        pulse = self._store.get(key) if self._store.exists(key) else b""
        if pulse != self._heard:
            self._heard, self._heard_at = pulse, now
        elif now - self._heard_at > self._patience_s:
            raise RunError(f"{self._other} has not been heard for {self._patience_s:g} s")

    def _beat(self) -> None:
        began = time.time_ns()
        for count in itertools.count():
            with contextlib.suppress(StoreError):  # it is away; whoever waits for it will say so
                self._store.replace(keys.pulse(self._role), f"{began} {count}".encode())
            if self._ended.wait(self._pulse_s):
                return
