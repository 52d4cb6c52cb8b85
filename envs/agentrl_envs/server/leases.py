"""Leases: who holds a session, until when, and what the last answer was.

A lease lives `ttl_s` seconds from its last use. One that is in use never expires. Nothing here
touches an environment or the clock of the machine: the time is asked of `clock`, so that tests can
turn it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentrl_envs.answer_check import AnswerChecker
from agentrl_envs.env import Observation, Step
from agentrl_envs.errors import CapacityError, SessionError

Clock = Callable[[], float]
"""Seconds, from any origin, never backwards."""


class UnknownLeaseError(SessionError):
    """The session never was, was closed, or ran out of time."""


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """One session's place."""

    id: str
    key: str
    expires_at: float
    users: int = 0
    """Calls that hold or await the lease now."""
    lost: bool = False
    """The session is gone; calls that still wait for it must be told."""
    over: bool = False
    """The episode has ended; there is no next step."""
    steps: int = 0
    """The number of the last step that was answered."""
    opening: Observation | None = None
    last_action: str | None = None
    last_step: Step | None = None
    checker: AnswerChecker = field(default_factory=AnswerChecker)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Calls of one session go one by one."""


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

    def grant(self, key: str) -> Lease:
        """The lease that `key` opened before, or a new one. Raises `CapacityError` when full."""
        held = self._by_key.get(key)
        if held is not None:
            return held
        if len(self._by_id) >= self._capacity:
            raise CapacityError(
                f"all {self._capacity} sessions are taken", retry_after_s=self._soonest_free_s()
            )
        lease = Lease(id=secrets.token_urlsafe(16), key=key, expires_at=self._clock() + self._ttl_s)
        self._by_id[lease.id] = lease
        self._by_key[key] = lease
        return lease

    def get(self, lease_id: str) -> Lease:
        """A lease that is held. Raises `UnknownLeaseError`."""
        lease = self._by_id.get(lease_id)
        if lease is None:
            raise UnknownLeaseError(f"session {lease_id!r} is not open: never, closed, or expired")
        return lease

    @contextmanager
    def used(self, lease: Lease) -> Iterator[Lease]:
        """Hold off the lease's expiry for the length of a call, and renew it at the end."""
        lease.users += 1
        try:
            yield lease
        finally:
            lease.users -= 1
            lease.expires_at = self._clock() + self._ttl_s

    def release(self, lease: Lease) -> None:
        """Give the place back. May be called twice."""
        lease.lost = True
        self._by_id.pop(lease.id, None)
        if self._by_key.get(lease.key) is lease:
            del self._by_key[lease.key]

    def expired(self) -> list[Lease]:
        """Leases whose time has run out and that no call uses."""
        return [held for held in self._by_id.values() if self.is_expired(held)]

    def is_expired(self, lease: Lease) -> bool:
        """Whether its time has run out and no call uses it."""
        return lease.users == 0 and lease.expires_at <= self._clock()

    def all(self) -> list[Lease]:
        """Every lease, in the order in which they were granted."""
        return list(self._by_id.values())

    def _soonest_free_s(self) -> float:
        """Sessions come free when episodes end, long before they expire: ask again soon."""
        return min(1.0, self._ttl_s)
