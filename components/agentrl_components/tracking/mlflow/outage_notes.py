"""What people are told while nothing, or not everything, can be recorded."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_QUIET_S = 60.0
"""After the note of an outage, another outage is noted after this time. It doubles with each noted
outage, up to `LONGEST_QUIET_S`: a server that fails in every iteration is not noted in each."""
LONGEST_QUIET_S = 3600.0
NOTES_PER_OUTAGE = 3


class OutageNotes:
    """Tells people when an outage begins, when its cause is another one, and when it is over."""

    def __init__(
        self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note, self._clock = note, clock
        self._causes: set[str] = set()
        """The causes that were noted in this outage. Empty: there is none, or it was not noted."""
        self._quiet_s = FIRST_QUIET_S
        self._quiet_until = clock()

    def failed(self, cause: str, text: str) -> None:
        """To be called after every failure. `text` is noted unless that of the same cause was."""
        if not self._causes:
            if self._clock() < self._quiet_until:
                return
            self._quiet_until = self._clock() + self._quiet_s
            self._quiet_s = min(2 * self._quiet_s, LONGEST_QUIET_S)
        if cause not in self._causes and len(self._causes) < NOTES_PER_OUTAGE:
            self._causes.add(cause)
            self._note(text)

    def recovered(self, text: str) -> None:
        """To be called whenever nothing waits to be recorded. `text` is noted after an outage that
        was."""
        if self._causes:
            self._causes.clear()
            self._note(text)
