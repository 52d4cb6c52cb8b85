"""Requests to a service that does not answer fail at once, in place of waiting for their timeout.

A worker of the controller waits for each request. Without this, all workers would soon wait for the
same service, and runs that do not need it, or are to be suspended or deleted, would wait behind
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SLOW_S = 4.0
"""A failure after this long counts as a missing answer. The shortest timeout, that of connecting,
is 5 s."""
FAILURES = 3
"""Missing answers in a row, after which requests fail at once. A single one may be due to the
request, such as a long list."""
PAUSE_S = 10.0
"""Time after a missing answer until a single request is sent to find out whether the service
answers again."""


@dataclass(slots=True)
class _Silence:
    """A service that did not answer the last request."""

    failures: int = 0
    next_trial: float = 0.0
    """Time of the event loop."""
    is_tried: bool = False


class Breaker:
    """Counts the missing answers of any number of services. Used from one event loop."""

    def __init__(self) -> None:
        self._silences: dict[str, _Silence] = {}

    @contextmanager
    def request(self, service: str) -> Iterator[None]:
        """Around a request to a service. An exception of the body that comes late is a missing
        answer, and everything else an answer.

        Raises:
            TimeoutError: the service did not answer the last requests, and is not tried now.
        """
        clock = asyncio.get_running_loop().time
        silence = self._silences.get(service)
        trial = silence if silence is not None and silence.failures >= FAILURES else None
        if trial is not None:
            if trial.is_tried or clock() < trial.next_trial:
                raise TimeoutError("not sent, because the last requests were not answered")
            trial.is_tried = True
        began = clock()
        try:
            yield
        except Exception:
            if clock() - began < SLOW_S:
                self._silences.pop(service, None)
            else:
                silence = self._silences.setdefault(service, _Silence())
                silence.failures += 1
                silence.next_trial = clock() + PAUSE_S
            raise
        else:
            self._silences.pop(service, None)
        finally:
            if trial is not None:
                trial.is_tried = False
