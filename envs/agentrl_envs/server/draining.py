"""A server that is asked to stop lets its live sessions end first.

While it drains it is not ready, refuses new sessions with 503 and type `draining`, which clients
take as "use another server", and answers the steps of the sessions it has.
"""

from __future__ import annotations

from collections.abc import Callable

from agentrl_envs.errors import SessionError
from agentrl_envs.server.leases import Clock


class DrainingError(SessionError):
    """The server is about to stop and opens no sessions."""


class Draining:
    """Whether a server drains, and until when."""

    def __init__(self, live_sessions: Callable[[], int], *, limit_s: float, clock: Clock) -> None:
        """`live_sessions` counts the episodes that have not ended; `limit_s` is the most seconds
        that they are waited for."""
        self._live_sessions = live_sessions
        self._limit_s = limit_s
        self._clock = clock
        self._began: float | None = None

    @property
    def begun(self) -> bool:
        """Whether the server was asked to stop."""
        return self._began is not None

    @property
    def over(self) -> bool:
        """Whether the server can exit: nothing is live, or the time is up."""
        if self._began is None:
            return False
        return not self._live_sessions() or self._clock() >= self._began + self._limit_s

    def begin(self) -> None:
        """Refuse new sessions from now on. May be called twice, and from a signal handler."""
        if self._began is None:
            self._began = self._clock()

    def check(self) -> None:
        """Raise `DrainingError` if the server drains."""
        if self.begun:
            raise DrainingError(
                f"the server is stopping and waits for {self._live_sessions()} live sessions; "
                "use another one"
            )
