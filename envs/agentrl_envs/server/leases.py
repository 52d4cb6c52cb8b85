"""Leases: who holds a session, until when, and the last answer it was given.

A lease expires `ttl_s` seconds after its last use or renewal; one that is in use never expires.
This module touches no environment and reads the time only from `clock`, which tests can set.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import CapacityError, SessionError

Clock = Callable[[], float]
"""Monotonic time in seconds, from any origin."""

MAX_RETRY_AFTER_S = 1.0
"""Sessions become free when episodes end, long before they expire, so clients retry soon."""


class UnknownLeaseError(SessionError):
    """The session never existed, was closed, or expired."""


class ConflictError(SessionError):
    """The client's view of the session is wrong."""


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """One session."""

    id: str
    key: str
    task: Task
    """The task that the session was opened with."""
    expires_at: float
    active_calls: int = 0
    """Calls that hold or wait for the lease."""
    lost: bool = False
    """The session is gone; calls that still wait for it must fail."""
    finished: bool = False
    """The episode has ended; there is no next step."""
    steps: int = 0
    """The number of the last answered step."""
    first_observation: Observation | None = None
    last_action: str | None = None
    last_step: Step | None = None
    checker: AnswerChecker = field(default_factory=AnswerChecker)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Serializes the calls of one session."""


class Leases:
    """All leases of a server. To be used from one event loop."""

    def __init__(self, *, capacity: int, ttl_s: float, clock: Clock) -> None:
        self._capacity = capacity
        self._ttl_s = ttl_s
        self._clock = clock
        self._by_id: dict[str, Lease] = {}
        self._by_key: dict[str, Lease] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def live(self) -> int:
        """Number of sessions whose episode goes on, or whose last call is being answered."""
        return sum(not lease.finished or lease.active_calls > 0 for lease in self.all())

    def has_key(self, key: str) -> bool:
        """Whether a session was opened with this key."""
        return key in self._by_key

    def acquire(self, key: str, task: Task) -> Lease:
        """The lease that `key` already has, or a new one. Raises `ConflictError` if `key` was used
        for another task, `CapacityError` when full."""
        existing = self._by_key.get(key)
        if existing is not None:
            if existing.task != task:
                raise ConflictError(
                    f"key {key!r} has opened a session for task {existing.task.id}; use a new key "
                    f"for task {task.id}"
                )
            return existing
        if len(self._by_id) >= self._capacity:
            raise CapacityError(
                f"all {self._capacity} sessions are in use",
                retry_after_s=min(MAX_RETRY_AFTER_S, self._ttl_s),
            )
        lease = Lease(
            id=secrets.token_urlsafe(16),
            key=key,
            task=task,
            expires_at=self._clock() + self._ttl_s,
        )
        self._by_id[lease.id] = lease
        self._by_key[key] = lease
        return lease

    def get(self, lease_id: str) -> Lease:
        """The lease with this id. Raises `UnknownLeaseError`."""
        lease = self._by_id.get(lease_id)
        if lease is None:
            raise UnknownLeaseError(
                f"session {lease_id!r} is not open: it never existed, was closed or expired"
            )
        return lease

    @contextmanager
    def in_use(self, lease: Lease) -> Iterator[Lease]:
        """Keep the lease from expiring during a call, and renew it at the end."""
        lease.active_calls += 1
        try:
            yield lease
        finally:
            lease.active_calls -= 1
            lease.expires_at = self._clock() + self._ttl_s

    def renew(self, lease_ids: Iterable[str]) -> int:
        """Renew leases without a call. Returns the number of those that exist."""
        leases = [self._by_id[one] for one in set(lease_ids) if one in self._by_id]
        for lease in leases:
            lease.expires_at = self._clock() + self._ttl_s
        return len(leases)

    def release(self, lease: Lease) -> None:
        """Free the session's place. May be called twice."""
        lease.lost = True
        self._by_id.pop(lease.id, None)
        if self._by_key.get(lease.key) is lease:
            del self._by_key[lease.key]

    def expired(self) -> list[Lease]:
        """Leases that have expired."""
        return [lease for lease in self._by_id.values() if self.is_expired(lease)]

    def is_expired(self, lease: Lease) -> bool:
        """Whether the lease's time has run out and no call uses it."""
        return lease.active_calls == 0 and lease.expires_at <= self._clock()

    def all(self) -> list[Lease]:
        """Every lease, in the order in which they were acquired."""
        return list(self._by_id.values())
