"""What a tracker still has to send: bounded, and never in the caller's way.

Metrics are never dropped: those of an iteration wait as one entry, and many wait as one job, so a
long outage costs memory of about a kilobyte an iteration and one request at its end. Params, files
and models wait once each. Episodes are for looking at: beyond a limit the oldest are dropped, and
counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentrl_components.trajectory.record import Trajectory

ITERATIONS_A_JOB = 100
EPISODES_WAITING = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Record these."""

    values: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Record these: by iteration, the time in ms since the epoch and the numbers."""

    iterations: dict[int, tuple[int, dict[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Show these as traces."""

    iteration: int
    name: str
    time_ms: int
    episodes: tuple[Trajectory, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Keep this file."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Register this folder."""

    folder: Path
    name: str


Job = Params | Metrics | Episodes | Artifact | Model


def describe(job: Job) -> str:
    """The job in a few words, for a person."""
    match job:
        case Params():
            return "the run's parameters"
        case Metrics():
            first, last = min(job.iterations), max(job.iterations)
            return f"metrics of iterations {first} to {last}"
        case Episodes():
            return f"{len(job.episodes)} episodes of iteration {job.iteration} ({job.name})"
        case Artifact():
            return f"file {job.path.name}"
        case Model():
            return f"model {job.name}"


class Outbox:
    """Jobs between the thread that makes them and the one that sends them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._params: dict[str, str] = {}
        self._metrics: dict[int, tuple[int, dict[str, float]]] = {}
        self._episodes: deque[Episodes] = deque()
        self._rest: dict[Artifact | Model, None] = {}
        self._closed = False
        self.dropped = 0
        """Batches of episodes that were dropped."""

    def params(self, values: Mapping[str, str]) -> None:
        """Add params to those that wait."""
        with self._changed:
            self._params.update(values)
            self._changed.notify()

    def metrics(self, iteration: int, time_ms: int, values: Mapping[str, float]) -> None:
        """Add numbers to those of the iteration that wait."""
        with self._changed:
            self._merge(iteration, time_ms, values)
            self._changed.notify()

    def episodes(
        self, iteration: int, name: str, time_ms: int, episodes: Sequence[Trajectory]
    ) -> None:
        """Add episodes, dropping the oldest beyond the limit."""
        with self._changed:
            self._episodes.append(
                Episodes(iteration=iteration, name=name, time_ms=time_ms, episodes=tuple(episodes))
            )
            if len(self._episodes) > EPISODES_WAITING:
                self._episodes.popleft()
                self.dropped += 1
            self._changed.notify()

    def add(self, job: Artifact | Model) -> None:
        """Add a file or a model, once."""
        with self._changed:
            self._rest[job] = None
            self._changed.notify()

    def close(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    def wait_closed(self, seconds: float) -> None:
        """Sleep, unless or until it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def take(self) -> Job | None:
        """The next job, waiting for one. None: closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._any())
            return self._pop()

    def put_back(self, job: Job) -> None:
        """A job that could not be sent waits again, before newer ones."""
        with self._changed:
            match job:
                case Params():
                    self._params = {**job.values, **self._params}
                case Metrics():
                    newer, self._metrics = self._metrics, dict(job.iterations)
                    for iteration, (time_ms, values) in newer.items():
                        self._merge(iteration, time_ms, values)
                case Episodes():
                    self._episodes.appendleft(job)
                case Artifact() | Model():
                    self._rest = {job: None, **self._rest}

    def left(self) -> list[str]:
        """What still waits, a line each; it is forgotten."""
        with self._changed:
            lines = []
            while (job := self._pop()) is not None:
                lines.append(describe(job))
            return lines

    def _merge(self, iteration: int, time_ms: int, values: Mapping[str, float]) -> None:
        first_ms, known = self._metrics.get(iteration, (time_ms, {}))
        self._metrics[iteration] = (first_ms, {**known, **values})

    def _any(self) -> bool:
        return bool(self._params or self._metrics or self._episodes or self._rest)

    def _pop(self) -> Job | None:
        if self._params:
            params, self._params = self._params, {}
            return Params(values=params)
        if self._metrics:
            chosen = sorted(self._metrics)[:ITERATIONS_A_JOB]
            return Metrics(iterations={number: self._metrics.pop(number) for number in chosen})
        if self._episodes:
            return self._episodes.popleft()
        if self._rest:
            job = next(iter(self._rest))
            del self._rest[job]
            return job
        return None
