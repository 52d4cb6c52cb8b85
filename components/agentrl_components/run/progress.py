"""What a run tells the person who watches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One iteration, as far as a person who waits wants to know."""

    iteration: int
    """Iterations done."""
    iterations: int
    """Iterations of the whole run, at most."""
    phase: int
    """From 0."""
    phases: int
    max_turns: int
    """The horizon."""
    success: float
    """Training success, a moving mean."""
    tokens_per_s: float
    """Sampled tokens a second."""
    seconds_left: float | None = None
    """Until training ends. None: not known yet."""


class View(Protocol):
    """Where progress is shown. No method raises, and none waits."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A stage begins, and the one before it is done. `total`: what it will `advance` to."""
        ...

    def advance(self, done: int = 1) -> None:
        """So much more of the stage is done."""
        ...

    def iteration(self, shown: Shown) -> None:
        """An iteration of training is done."""
        ...

    def note(self, text: str) -> None:
        """A line that stays: the horizon grows, an alarm rings, the run was resumed."""
        ...

    def close(self) -> None:
        """Nothing more will be shown. May be called again."""
        ...


class SilentView:
    """Shows nothing, and remembers what it was told, for tests."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.iterations: list[Shown] = []
        self.notes: list[str] = []
        self.done = 0
        """Of the stage that is under way."""
        self.closed = False

    def stage(self, name: str, total: int | None = None) -> None:
        self.stages.append(name)
        self.done = 0

    def advance(self, done: int = 1) -> None:
        self.done += done

    def iteration(self, shown: Shown) -> None:
        self.iterations.append(shown)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        self.closed = True
