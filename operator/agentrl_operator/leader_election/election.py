"""Leader election with a Lease: what one process has to do next, as a pure function of the Lease
that it observed, its own identity and its own clock.

As in client-go's leaderelection package, clocks of different machines are never compared. The
leader may write until `renew_deadline_s` after it *sent* its last successful update. Another
process waits for `lease_duration_s` from when it first observed that update, which is later, and
then updates the Lease at the resourceVersion that it observed, which fails if the leader has
renewed the Lease meanwhile. So the old leader has stopped before the new one begins, however slow
the network is, as long as no clock runs one and a half times as fast as another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    """Namespace and name of a Lease."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> LeaseName:
        """The name in NAMESPACE/NAME. Raises `ValueError`."""
        namespace, _, name = text.partition("/")
        if not namespace or not name or "/" in name:
            raise ValueError(f"{text!r}: expected NAMESPACE/NAME of a Lease")
        return cls(namespace=namespace, name=name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A Lease as it is stored in Kubernetes."""

    version: str
    """Its resourceVersion, which changes with every update."""
    holder: str
    """Identity of the leader; empty if there is none."""
    duration_s: int
    """Time for which it must stay unchanged before another process may acquire it."""
    transitions: int = 0
    """Number of changes of the holder."""
    acquired: str = ""
    """Time of the last change by the holder's clock, for display only."""


class Leases(Protocol):
    """The Leases of a cluster. Every method may raise `KubernetesError`."""

    async def get(self, name: LeaseName) -> LeaseRecord | None:
        """A Lease; None if it does not exist."""
        ...

    async def update(
        self, name: LeaseName, holder: str, duration_s: int, observed: LeaseRecord | None
    ) -> LeaseRecord | None:
        """Set the holder of a Lease if it is unchanged since `observed`, or create it if that is
        None. Returns the updated Lease, None if it has changed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations in seconds, derived from one. For the default the first three are client-go's."""

    lease_duration_s: int = 15
    """Time that others wait before they acquire a Lease that is not renewed."""

    @property
    def renew_deadline_s(self) -> float:
        """Time for which the leader may write after it sent an update. The rest of the lease
        duration is for requests in flight to end."""
        return self.lease_duration_s * 2 / 3

    @property
    def renew_period_s(self) -> float:
        """Time between two updates of the leader."""
        return self.lease_duration_s / 5

    @property
    def request_timeout_s(self) -> float:
        """Time to wait for a response."""
        return self.lease_duration_s / 3

    @property
    def retry_period_s(self) -> float:
        """Time between two attempts to acquire the Lease, and after a failed request."""
        return self.lease_duration_s / 15


DEFAULT_TIMING = Timing()

Step = Literal["get", "acquire", "wait", "renew", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What one process knows about the Lease. All times are of its own clock."""

    identity: str
    """Unique among all processes, including earlier ones of the same pod."""
    timing: Timing = DEFAULT_TIMING
    record: LeaseRecord | None = None
    """The Lease as last observed; None if it did not exist."""
    observed_at: float | None = None
    """When this version was first observed; None before the first request."""
    deadline: float | None = None
    """Until when it may write as the leader; None if it has not been the leader."""

    def with_observation(self, record: LeaseRecord | None, at: float) -> Candidate:
        """The candidate after it read the Lease."""
        if self.observed_at is not None and _version(record) == _version(self.record):
            return self
        return replace(self, record=record, observed_at=at)

    def with_update(self, record: LeaseRecord, sent: float, at: float) -> Candidate:
        """The candidate after its own update, sent at `sent`, succeeded."""
        deadline = sent + self.timing.renew_deadline_s
        return replace(self, record=record, observed_at=at, deadline=deadline)

    @property
    def holder(self) -> str:
        """Identity of the leader as last observed; empty if there is none."""
        return self.record.holder if self.record is not None else ""


def next_step(candidate: Candidate, now: float) -> Step:
    """What the candidate has to do at time `now`. `acquire` and `renew` are updates at the version
    that it observed; after `stop` it is no longer the leader and must not write any more."""
    if candidate.deadline is not None:
        leader = candidate.holder == candidate.identity and now < candidate.deadline
        return "renew" if leader else "stop"
    if candidate.observed_at is None:
        return "get"
    # Its own identity in the Lease: the response to an earlier update was lost.
    if candidate.record is None or candidate.holder in ("", candidate.identity):
        return "acquire"
    duration_s = max(candidate.record.duration_s, candidate.timing.lease_duration_s)
    return "acquire" if now >= candidate.observed_at + duration_s else "wait"


def _version(record: LeaseRecord | None) -> str | None:
    return record.version if record is not None else None
