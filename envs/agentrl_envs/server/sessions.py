"""Sessions: leases, environments and counters put together. What the routes of the server call.

A failed call loses its session, and only that: the lease is released, the environment discarded,
and the client told by a `SessionError`. A repeated call gets the stored answer of the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import CapacityError, SessionError
from agentrl_envs.server.executors import Host
from agentrl_envs.server.leases import Clock, Lease, Leases, UnknownLeaseError
from agentrl_envs.server.metrics import Metrics


class ConflictError(SessionError):
    """The session is not where the client thinks it is."""


class Sessions:
    """Every session of one server."""

    def __init__(
        self,
        host: Host,
        metrics: Metrics,
        *,
        capacity: int,
        ttl_s: float,
        timeout_s: float,
        clock: Clock = time.monotonic,
    ) -> None:
        self._host = host
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._leases = Leases(capacity=capacity, ttl_s=ttl_s, clock=clock)

    async def open(
        self, task: Task, key: str, replaces: str | None = None
    ) -> tuple[str, Observation]:
        """A session with the task set up in it: its id and the first observation.

        Raises `CapacityError` when full, `TaskError` for a task that is not this environment's."""
        if replaces is not None:
            await self.close(replaces)
        try:
            lease = self._leases.grant(key)
        except CapacityError:
            self._metrics.refused.inc()
            raise
        async with self._turn(lease):
            if lease.opening is not None:
                self._metrics.repeated.inc()
                return lease.id, lease.opening
            async with self._kept(lease), self._in_time("reset"):
                with self._metrics.reset_seconds.time():
                    observation = await self._host.reset(lease.id, task)
                lease.opening = lease.checker.reset(observation)
            self._metrics.opened.inc()
        self._count()
        return lease.id, lease.opening

    async def step(self, session: str, n: int, action: str) -> Step:
        """The n-th step, counted from 1; the last one again when it is repeated as it was.

        Raises `UnknownLeaseError`, `ConflictError` for a number out of order."""
        lease = self._leases.get(session)
        async with self._turn(lease):
            if (answered := _answered(lease, n, action)) is not None:
                self._metrics.repeated.inc()
                return answered
            async with self._kept(lease), self._in_time("step"):
                with self._metrics.step_seconds.time():
                    step = await self._host.step(lease.id, action)
                lease.checker.step(step)
            lease.steps, lease.last_action, lease.last_step = n, action, step
            lease.over = step.terminated or step.truncated
        self._metrics.steps.inc()
        return step

    async def close(self, session: str) -> None:
        """Give the session back. A session that is not open is closed already."""
        try:
            lease = self._leases.get(session)
        except UnknownLeaseError:
            return
        async with lease.turn:
            if not lease.lost:
                self._leases.release(lease)
                await self._host.release(lease.id)
        self._count()

    async def reap(self) -> int:
        """Close what has run out of time; returns how many."""
        reaped = 0
        for lease in self._leases.expired():
            # While the one before it was closed, its client may have come back.
            if not lease.lost and self._leases.is_expired(lease):
                self._metrics.expired.inc()
                await self.close(lease.id)
                reaped += 1
        return reaped

    async def shut(self) -> None:
        """Close every environment. Sessions do not outlive their server."""
        for lease in self._leases.all():
            self._leases.release(lease)
        await self._host.close()
        self._count()

    @asynccontextmanager
    async def _turn(self, lease: Lease) -> AsyncIterator[None]:
        """The lease, for one call."""
        with self._leases.used(lease):
            async with lease.turn:
                if lease.lost:
                    raise UnknownLeaseError(f"session {lease.id!r} was lost by an earlier call")
                yield

    @asynccontextmanager
    async def _kept(self, lease: Lease) -> AsyncIterator[None]:
        """A call into the environment: whatever it raises, the session is lost with it."""
        kept = False
        try:
            yield
            kept = True
        finally:
            if not kept:
                self._leases.release(lease)
                self._metrics.lost.inc()
                self._count()
                self._host.discard(lease.id)

    @asynccontextmanager
    async def _in_time(self, call: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise SessionError(f"{call} took longer than {self._timeout_s:g} s") from None

    def _count(self) -> None:
        self._metrics.sessions.set(len(self._leases))


def _answered(lease: Lease, n: int, action: str) -> Step | None:
    """The stored answer, if this is the last step again. None: it is the next one."""
    if n == lease.steps and action == lease.last_action:
        return lease.last_step
    if n != lease.steps + 1:
        raise ConflictError(
            f"step {n} was sent, but step {lease.steps + 1} is next"
            if n != lease.steps
            else f"step {n} was answered already, for another action"
        )
    if lease.over:
        raise ConflictError("the episode is over; open a session for the next one")
    return None
