"""The queue of what a tracker still has to send.

The queue is bounded and never blocks the caller. Metrics are never dropped: those of one iteration
are merged into one entry, and many entries are sent as one job, so that a long outage costs about a
kilobyte of memory per iteration and few requests afterwards. Params, files and models are queued
once each. Of episodes, the oldest are dropped beyond a limit, and the dropped batches are counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrl_components.trajectory.record import Trajectory

ITERATIONS_PER_JOB = 100
MAX_EPISODE_BATCHES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Record params."""

    values: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Record metrics. By iteration: time in ms since the epoch, and values by name."""

    iterations: dict[int, tuple[int, dict[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Record episodes as traces."""

    iteration: int
    name: str
    time_ms: int
    episodes: tuple[Trajectory, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Upload a file."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Register the model in a folder."""

    folder: Path
    name: str
    description: str = ""
    """Markdown."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """JSON: `reporting.description.model_metadata`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Set the description of the run."""

    text: str
    """Markdown."""


Job = Params | Metrics | Episodes | Artifact | Model | Description


def describe(job: Job) -> str:
    """A short description of the job for messages."""
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
        case Description():
            return "the run's description"


class SendQueue:
    """Thread-safe queue of jobs: the run's threads add, the tracker's thread takes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._params: dict[str, str] = {}
        self._metrics: dict[int, tuple[int, dict[str, float]]] = {}
        self._episodes: deque[Episodes] = deque()
        self._rest: dict[Artifact | Model | Description, None] = {}
        self._behind: set[type[Job]] = set()
        """Kinds of which a job failed: a job of another kind is taken before the next of these."""
        self._closed = False
        self.dropped = 0
        """Number of dropped batches of episodes."""

    def params(self, values: Mapping[str, str]) -> None:
        """Add params; they are merged with queued ones."""
        with self._changed:
            self._params.update(values)
            self._changed.notify()

    def metrics(self, iteration: int, time_ms: int, values: Mapping[str, float]) -> None:
        """Add metrics; they are merged with queued ones of the same iteration."""
        with self._changed:
            self._merge(iteration, time_ms, values)
            self._changed.notify()

    def episodes(
        self, iteration: int, name: str, time_ms: int, episodes: Sequence[Trajectory]
    ) -> None:
        """Add a batch of episodes. Beyond the limit, drops the oldest batch."""
        with self._changed:
            self._episodes.append(
                Episodes(iteration=iteration, name=name, time_ms=time_ms, episodes=tuple(episodes))
            )
            if len(self._episodes) > MAX_EPISODE_BATCHES:
                self._episodes.popleft()
                self.dropped += 1
            self._changed.notify()

    def add(self, job: Artifact | Model | Description) -> None:
        """Add a file, a model or a description, unless it is queued already."""
        with self._changed:
            self._rest[job] = None
            self._changed.notify()

    def close(self) -> None:
        """Declare that nothing more will be added."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def empty(self) -> bool:
        """Whether no job waits to be taken."""
        with self._changed:
            return not self._has_jobs()

    def wait_closed(self, seconds: float) -> None:
        """Wait until the queue is closed, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def take(self) -> Job | None:
        """Take the next job; wait for one. None: closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_jobs())
            return self._pop()

    def put_back(self, job: Job, *, behind: bool = False) -> None:
        """Return a job that could not be sent. Values that were added meanwhile take precedence
        over those of the job.

        It is taken before newer jobs of its kind. With `behind` it is taken after them and after
        one job of another kind, in case only this job fails."""
        with self._changed:
            if behind:
                self._behind.add(type(job))
            match job:
                case Params():
                    self._params = {**job.values, **self._params}
                case Metrics():
                    newer, self._metrics = self._metrics, dict(job.iterations)
                    for iteration, (time_ms, values) in newer.items():
                        self._merge(iteration, time_ms, values)
                case Episodes() if behind and len(self._episodes) >= MAX_EPISODE_BATCHES:
                    self.dropped += 1
                case Episodes() if behind:
                    self._episodes.append(job)
                case Episodes():
                    self._episodes.appendleft(job)
                case Artifact() | Model() | Description():
                    rest = {one: None for one in self._rest if one != job}
                    self._rest = {**rest, job: None} if behind else {job: None, **rest}

    def postpone(self, kind: type[Job]) -> None:
        """Take a job of another kind before the next one of this kind."""
        with self._changed:
            self._behind.add(kind)

    def drain(self) -> list[str]:
        """Empty the queue. Returns a description of each job that was in it."""
        with self._changed:
            lines = []
            while (job := self._pop()) is not None:
                lines.append(describe(job))
            return lines

    def _merge(self, iteration: int, time_ms: int, values: Mapping[str, float]) -> None:
        first_ms, known = self._metrics.get(iteration, (time_ms, {}))
        self._metrics[iteration] = (first_ms, {**known, **values})

    def _has_jobs(self) -> bool:
        return bool(self._params or self._metrics or self._episodes or self._rest)

    def _kinds(self) -> Iterator[type[Job]]:
        """The kinds of the queued jobs, in the order in which they are taken."""
        kinds: list[tuple[type[Job], object]] = [
            (Params, self._params),
            (Metrics, self._metrics),
            (Episodes, self._episodes),
        ]
        yield from (kind for kind, jobs in kinds if jobs)
        yield from (type(job) for job in self._rest)

    def _pop(self) -> Job | None:
        kind = min(self._kinds(), key=self._behind.__contains__, default=None)
        if kind is None:
            return None
        self._behind.discard(kind)
        if kind is Params:
            params, self._params = self._params, {}
            return Params(values=params)
        if kind is Metrics:
            chosen = sorted(self._metrics)[:ITERATIONS_PER_JOB]
            return Metrics(iterations={number: self._metrics.pop(number) for number in chosen})
        if kind is Episodes:
            return self._episodes.popleft()
        job = next(job for job in self._rest if type(job) is kind)
        del self._rest[job]
        return job
