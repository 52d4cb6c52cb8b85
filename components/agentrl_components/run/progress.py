"""How a run shows its progress to a person."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

REMEMBERED = 20
"""Iterations that the remaining time is estimated from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationProgress:
    """One finished iteration, as it is displayed."""

    iteration: int
    """Iterations done."""
    iterations: int
    """Maximum iterations of the whole run."""
    phase: int
    """Counted from 0."""
    phases: int
    turns: str
    """The turn limit: `8`, or `3 to 8` if environments differ."""
    success: float
    """Training success, a moving mean."""
    tokens_per_s: float
    """Sampled tokens per second of the rollout, or of the iteration if episodes stream."""
    score: float | None = None
    """Mean score of the training episodes, a moving mean. None: the same as `success`."""
    seconds_left: float | None = None
    """Estimated seconds until training ends. None: not known yet."""


class ProgressView(Protocol):
    """Where progress is displayed. Methods neither raise nor block."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins and the previous one is done. `total`: the sum of its `advance` calls."""
        ...

    def advance(self, done: int = 1) -> None:
        """`done` more units of the stage are done."""
        ...

    def iteration(self, progress: IterationProgress) -> None:
        """A training iteration is done."""
        ...

    def note(self, text: str) -> None:
        """Show a line that stays: the horizon grows, an alarm fires, the run was resumed. May be
        called by any thread."""
        ...

    def close(self) -> None:
        """Nothing more will be shown. May be called twice."""
        ...


class SilentProgressView:
    """Displays nothing and records what it was called with, for tests."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.iterations: list[IterationProgress] = []
        self.notes: list[str] = []
        self.done = 0
        """Units done of the current stage."""
        self.closed = False

    def stage(self, name: str, total: int | None = None) -> None:
        self.stages.append(name)
        self.done = 0

    def advance(self, done: int = 1) -> None:
        self.done += done

    def iteration(self, progress: IterationProgress) -> None:
        self.iterations.append(progress)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        self.closed = True


class TimeLeft:
    """Estimates the remaining time from the duration of recent iterations."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def estimate(self, iterations: int, seconds: float) -> float:
        """Seconds that `iterations` more iterations will take, after one that took `seconds`."""
        self._seconds.append(seconds)
        return iterations * sum(self._seconds) / len(self._seconds)
