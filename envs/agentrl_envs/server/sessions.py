"""Sessions: leases, environments and metrics combined. The routes of the server call this.

A failed call loses its session and nothing else: the lease is released, the environment discarded,
and the client receives a `SessionError`. A repeated call returns the stored answer of the first.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import CapacityError, SessionError
from agentrl_envs.server.draining import Draining
from agentrl_envs.server.execution.executor import Executor
from agentrl_envs.server.leases import Clock, ConflictError, Lease, Leases, UnknownLeaseError
from agentrl_envs.server.metrics import Metrics


class Sessions:
    """All sessions of one server."""

    def __init__(
        self,
        executor: Executor,
        metrics: Metrics,
        *,
        capacity: int,
        ttl_s: float,
        timeout_s: float,
        drain_s: float = 0.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._executor = executor
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._capacity = capacity
        self._leases = Leases(capacity=capacity, ttl_s=ttl_s, clock=clock)
        self.draining = Draining(self._leases.live, limit_s=drain_s, clock=clock)

    async def open(
        self, task: Task, key: str, replaces: str | None = None, *, limit_s: float = math.inf
    ) -> tuple[str, Observation]:
        """Open a session and set up `task`: its id and the first observation. `limit_s`: seconds
        that the reset may take, if they are less than the server's limit.

        Raises `CapacityError` when the server is full, `DrainingError` while it drains,
        `ConflictError` if `key` was used for another task, `TaskError` for a task of another
        environment."""
        if replaces is not None:
            await self.close(replaces)
        if not self._leases.has_key(key):
            self.draining.check()
        try:
            lease = self._leases.acquire(key, task)
        except CapacityError:
            self._metrics.refused.inc()
            raise
        async with self._locked(lease):
            if lease.first_observation is not None:
                self._metrics.repeated.inc()
                return lease.id, lease.first_observation
            async with self._lost_on_failure(lease), self._timeout("reset", limit_s):
                with self._metrics.reset_seconds.time():
                    observation = await self._executor.reset(lease.id, task)
                lease.first_observation = lease.checker.reset(observation, task)
            self._metrics.opened.inc()
        self._update_gauge()
        return lease.id, lease.first_observation

    async def step(self, session: str, n: int, action: str, *, limit_s: float = math.inf) -> Step:
        """Take the n-th step, counted from 1; a repeat of the last one returns its stored answer.
        `limit_s`: seconds that it may take, if they are less than the server's limit.

        Raises `UnknownLeaseError`, and `ConflictError` for a number out of order."""
        lease = self._leases.get(session)
        async with self._locked(lease):
            if (stored := _stored_answer(lease, n, action)) is not None:
                self._metrics.repeated.inc()
                return stored
            async with self._lost_on_failure(lease), self._timeout("step", limit_s):
                with self._metrics.step_seconds.time():
                    step = await self._executor.step(lease.id, action)
                lease.checker.step(step)
            lease.steps, lease.last_action, lease.last_step = n, action, step
            lease.finished = step.terminated or step.truncated
        self._metrics.steps.inc()
        return step

    def renew(self, sessions: Iterable[str]) -> int:
        """Keep sessions from expiring whose client is busy with something else. Returns the number
        of those that are open."""
        return self._leases.renew(sessions)

    async def close(self, session: str) -> None:
        """Close the session. Does nothing for one that is not open."""
        try:
            lease = self._leases.get(session)
        except UnknownLeaseError:
            return
        async with lease.lock:
            if not lease.lost:
                self._leases.release(lease)
                await self._executor.release(lease.id)
        self._update_gauge()

    async def close_expired(self) -> int:
        """Close the expired sessions; returns their number."""
        closed = 0
        for lease in self._leases.expired():
            # Its client may have returned while the session before it was being closed.
            if not lease.lost and self._leases.is_expired(lease):
                self._metrics.expired.inc()
                await self.close(lease.id)
                closed += 1
        return closed

    async def close_all(self) -> None:
        """Close every environment. Sessions do not survive their server."""
        for lease in self._leases.all():
            self._leases.release(lease)
        await self._executor.close()
        self._update_gauge()

    @asynccontextmanager
    async def _locked(self, lease: Lease) -> AsyncIterator[None]:
        """Hold the lease for one call. Raises `UnknownLeaseError` if a call before lost it."""
        with self._leases.in_use(lease):
            async with lease.lock:
                if lease.lost:
                    raise UnknownLeaseError(f"session {lease.id!r} was lost by an earlier call")
                yield

    @asynccontextmanager
    async def _lost_on_failure(self, lease: Lease) -> AsyncIterator[None]:
        """Lose the session if the body does not complete, cancellation included."""
        completed = False
        try:
            yield
            completed = True
        finally:
            if not completed:
                self._leases.release(lease)
                self._metrics.lost.inc()
                self._update_gauge()
                self._executor.discard(lease.id)

    @asynccontextmanager
    async def _timeout(self, call: str, limit_s: float) -> AsyncIterator[None]:
        if not self._executor.limits_calls:
            limit_s = min(self._timeout_s, limit_s)
        try:
            async with asyncio.timeout(limit_s if limit_s < math.inf else None) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise  # the environment's own: a service that it uses did not answer
            raise SessionError(f"{call} took longer than {limit_s:g} s") from None

    def _update_gauge(self) -> None:
        self._metrics.sessions.set(len(self._leases))
        self._metrics.share.set(len(self._leases) / self._capacity)


def _stored_answer(lease: Lease, n: int, action: str) -> Step | None:
    """The stored answer if this repeats the last step; None if it is the next step. Raises
    `ConflictError` otherwise."""
    if n == lease.steps and action == lease.last_action:
        return lease.last_step
    if n != lease.steps + 1:
        raise ConflictError(
            f"received step {n}, expected step {lease.steps + 1}"
            if n != lease.steps
            else f"step {n} was already taken with another action"
        )
    if lease.finished:
        raise ConflictError("the episode has ended; open a session for the next one")
    return None
