"""Acquires a Lease, renews it and releases it; `election` decides which of them and when."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from agentrl_operator.clients.write_gate import WriteGate, clock
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import (
    DEFAULT_TIMING,
    Candidate,
    LeaseName,
    Leases,
    Timing,
    next_step,
)

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 10.0
"""Time for the responses to requests in flight when the operator is stopped."""


def new_identity() -> str:
    """An identity for this process: its host name (in a cluster the pod's) and a random suffix."""
    return f"{socket.gethostname()}_{uuid4().hex[:8]}"


def exit_process() -> None:
    """End this process at once, without cleaning up or waiting for threads. The kubelet restarts
    the container."""
    os._exit(1)


class LeaderElector:
    """One process of a leader election."""

    def __init__(
        self,
        leases: Leases,
        name: LeaseName,
        gate: WriteGate,
        *,
        timing: Timing = DEFAULT_TIMING,
        identity: str | None = None,
        clock: Callable[[], float] = clock,
        on_stopped_leading: Callable[[], None] = exit_process,
    ) -> None:
        """`gate` is open only while this process is the leader. `on_stopped_leading` is called when
        it has lost the Lease."""
        self.name = name
        self.leading = asyncio.Event()
        """Set once this process has become the leader."""
        self._leases = leases
        self._gate = gate
        self._timing = timing
        self._clock = clock
        self._on_stopped_leading = on_stopped_leading
        self._candidate = Candidate(identity=identity or new_identity(), timing=timing)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._problem = ""
        gate.expires_at = -math.inf

    @asynccontextmanager
    async def campaign(self, on_standby: Callable[[str], None]) -> AsyncIterator[None]:
        """Try to acquire the Lease and then renew it until the end of this context, where it is
        released. `on_standby` is called with the identity of another leader whenever Kubernetes
        shows it."""
        self._task = asyncio.create_task(self._run(on_standby))
        self._task.add_done_callback(self._check_task)
        try:
            yield
        finally:
            await self.step_down()

    async def step_down(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Refuse new writes, wait for the responses to those in flight, and release the Lease.

        The next leader must not read anything before our last write has arrived. So the Lease is
        not released, but left to expire, where a response is missing after `timeout_s`. A second
        call does nothing.
        """
        task, self._task = self._task, None
        if task is None:
            return
        drained = await self._gate.close(timeout_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._cancel_timer()
        if not drained:
            logger.warning(
                "not releasing lease %s: a response is missing; the lease will expire", self.name
            )
        elif next_step(self._candidate, self._clock()) == "renew":
            await self._release()

    async def _run(self, on_standby: Callable[[str], None]) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timing.request_timeout_s):
                    await self._advance(on_standby)
                self._problem = ""
            except (KubernetesError, TimeoutError) as error:
                self._log_problem(error)
            if next_step(self._candidate, self._clock()) == "stop":
                return self._stop_leading()
            renewed = self.leading.is_set() and not self._problem
            timing = self._timing
            await asyncio.sleep(timing.renew_period_s if renewed else timing.retry_period_s)

    async def _advance(self, on_standby: Callable[[str], None]) -> None:
        """Renew the Lease; if that is not possible, read it and do what follows from it."""
        step = next_step(self._candidate, self._clock())
        if step == "renew" and await self._update(self._candidate.identity):
            return
        before = self._candidate.holder
        record = await self._leases.get(self.name)
        self._candidate = self._candidate.with_observation(record, self._clock())
        step, holder = next_step(self._candidate, self._clock()), self._candidate.holder
        if step == "wait":
            if holder != before:
                logger.info("on standby: %s holds lease %s", holder, self.name)
            on_standby(holder)
        elif step in ("acquire", "renew"):
            await self._update(self._candidate.identity)

    async def _update(self, holder: str) -> bool:
        """Update the Lease at the version that was observed. Returns whether it was unchanged."""
        candidate, sent = self._candidate, self._clock()
        record = await self._leases.update(
            self.name, holder, self._timing.lease_duration_s, candidate.record
        )
        if record is None:
            return False
        if holder == candidate.identity:
            self._candidate = candidate.with_update(record, sent, self._clock())
            self._gate.expires_at = sent + self._timing.renew_deadline_s
            self._start_timer()
            if not self.leading.is_set():
                logger.info("acquired lease %s as %s", self.name, holder)
                self.leading.set()
        return True

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._timing.request_timeout_s):
                if not await self._update(""):  # a renewal was cancelled after it had arrived
                    record = await self._leases.get(self.name)
                    self._candidate = self._candidate.with_observation(record, self._clock())
                    leader = self._candidate.holder == self._candidate.identity
                    if not leader or not await self._update(""):
                        return
            logger.info("released lease %s", self.name)
        except (KubernetesError, TimeoutError) as error:
            self._log_problem(error)

    def _log_problem(self, error: Exception) -> None:
        problem = str(error) or f"no response in {self._timing.request_timeout_s:g} s"
        if problem != self._problem:
            logger.warning("lease %s: %s", self.name, problem)
        self._problem = problem

    def _start_timer(self) -> None:
        self._cancel_timer()
        left_s = max(0.0, self._gate.expires_at - self._clock())
        self._timer = asyncio.get_running_loop().call_later(left_s, self._check_deadline)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        if next_step(self._candidate, self._clock()) == "stop":
            self._stop_leading()
        else:  # a timer can fire early by the resolution of its clock
            self._start_timer()

    def _stop_leading(self) -> None:
        self._cancel_timer()
        self._gate.expires_at = -math.inf
        if self._candidate.holder != self._candidate.identity:
            reason = f"its holder is {self._candidate.holder or 'nobody'}"
        else:
            reason = self._problem or "it was not renewed in time"
        logger.error("lost lease %s (%s): exiting", self.name, reason)
        self._on_stopped_leading()

    def _check_task(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("internal error: lease %s is not renewed", self.name, exc_info=error)
            self._on_stopped_leading()
