"""A limit on the rate of requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class RateLimit:
    """Spaces the calls of all threads evenly: at most `per_second`."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when the next request may be sent."""
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._interval_s
        if start > now:
            self._sleep(start - now)
