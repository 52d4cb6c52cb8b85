"""How long a condition of each run has held."""

from __future__ import annotations

from collections.abc import Callable


class ConditionTimer:
    """For each run, how long a condition has held without interruption. An operator that restarts
    begins to count anew."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._since: dict[str, float] = {}

    def update(self, uid: str, *, observed: bool) -> float | None:
        """Note whether the condition of the run with this uid is observed now. Returns for how many
        seconds it has held without interruption; None if it is not observed."""
        if not observed:
            self._since.pop(uid, None)
            return None
        now = self._clock()
        return now - self._since.setdefault(uid, now)

    def forget(self, uid: str) -> None:
        """Drop what is kept of a run."""
        self._since.pop(uid, None)
