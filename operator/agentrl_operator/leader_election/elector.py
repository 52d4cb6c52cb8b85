"""Takes the Lease, keeps it, and gives it back; what to do when is `lease`'s part."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from agentrl_operator.clients.write_gate import Term, clock
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import USUAL, Leases, Name, Timing, View, move

logger = logging.getLogger(__name__)

SETTLE_S = 10.0
"""For the answers to what is under way when the operator is told to stop."""


def identity() -> str:
    """Of this process: where it runs (the pod's name), and what tells it from its predecessor."""
    return f"{socket.gethostname()}_{uuid4().hex[:8]}"


def end_process() -> None:
    """At once: nothing is tidied up, no thread is waited for. The kubelet starts it anew."""
    os._exit(1)


class Leadership:
    """One process' part in the election."""

    def __init__(
        self,
        leases: Leases,
        name: Name,
        term: Term,
        *,
        timing: Timing = USUAL,
        me: str | None = None,
        clock: Callable[[], float] = clock,
        lost: Callable[[], None] = end_process,
    ) -> None:
        """`term` is not open unless the Lease is held. `lost` is called when that is over."""
        self.name = name
        self.held = asyncio.Event()
        self._leases = leases
        self._term = term
        self._timing = timing
        self._clock = clock
        self._lost = lost
        self._view = View(me=me or identity(), timing=timing)
        self._timer: asyncio.TimerHandle | None = None
        self._trying: asyncio.Task[None] | None = None
        self._trouble = ""
        term.until = -math.inf

    @asynccontextmanager
    async def campaign(self, waits: Callable[[str], None]) -> AsyncIterator[None]:
        """The Lease is tried for meanwhile, and kept once it is held; at the end it is given back.
        `waits` is told who else holds it, whenever Kubernetes says so."""
        self._trying = asyncio.create_task(self._campaign(waits))
        self._trying.add_done_callback(self._finished)
        try:
            yield
        finally:
            await self.step_down()

    async def step_down(self, patience_s: float = SETTLE_S) -> None:
        """Begin no more changes, wait for the answers to those under way, and give the Lease back:
        who takes over must not look before a request of ours has arrived. Where an answer stays
        out, the Lease is left to run out. Nothing happens the second time."""
        trying, self._trying = self._trying, None
        if trying is None:
            return
        settled = await self._term.close(patience_s)
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
        self._disarm()
        if not settled:
            logger.warning("the lease %s is left to run out: an answer is missing", self.name)
        elif move(self._view, self._clock()) == "renew":
            await self._release()

    async def _campaign(self, waits: Callable[[str], None]) -> None:
        while True:
            try:
                async with asyncio.timeout(self._timing.patience_s):
                    await self._step(waits)
                self._trouble = ""
            except (KubernetesError, TimeoutError) as error:
                self._note(error)
            if move(self._view, self._clock()) == "lost":
                return self._over()
            well = self.held.is_set() and not self._trouble
            await asyncio.sleep(self._timing.renew_s if well else self._timing.retry_s)

    async def _step(self, waits: Callable[[str], None]) -> None:
        if move(self._view, self._clock()) == "renew" and await self._write(self._view.me):
            return
        before = self._view.holder
        self._view = self._view.saw(await self._leases.read(self.name), self._clock())
        following, holder = move(self._view, self._clock()), self._view.holder
        if following == "wait":
            if holder != before:
                logger.info("waiting for the lease %s, which %s holds", self.name, holder)
            waits(holder)
        elif following in ("take", "renew"):
            await self._write(self._view.me)

    async def _write(self, holder: str) -> bool:
        """Over the version that was seen; whether nobody had written another one."""
        view, sent = self._view, self._clock()
        record = await self._leases.write(self.name, holder, self._timing.duration_s, view.record)
        if record is None:
            return False
        if holder == view.me:
            self._view = view.wrote(record, sent, self._clock())
            self._term.until = sent + self._timing.act_s
            self._arm()
            if not self.held.is_set():
                logger.info("took the lease %s: this operator acts, as %s", self.name, view.me)
                self.held.set()
        return True

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._timing.patience_s):
                if not await self._write(""):  # a renewal was cut off after it had arrived
                    self._view = self._view.saw(await self._leases.read(self.name), self._clock())
                    if self._view.holder != self._view.me or not await self._write(""):
                        return
            logger.info("gave the lease %s back", self.name)
        except (KubernetesError, TimeoutError) as error:
            self._note(error)

    def _note(self, error: Exception) -> None:
        trouble = str(error) or f"no answer in {self._timing.patience_s:g} s"
        if trouble != self._trouble:
            logger.warning("lease %s: %s", self.name, trouble)
        self._trouble = trouble

    def _arm(self) -> None:
        self._disarm()
        left_s = max(0.0, self._term.until - self._clock())
        self._timer = asyncio.get_running_loop().call_later(left_s, self._due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        if move(self._view, self._clock()) == "lost":
            self._over()
        else:  # a timer may be early by as much as its clock's grain
            self._arm()

    def _over(self) -> None:
        self._disarm()
        self._term.until = -math.inf
        other = self._view.holder != self._view.me
        why = f"{self._view.holder or 'nobody'} holds it" if other else self._trouble
        logger.error(
            "lost the lease %s (%s): this operator ends at once",
            self.name,
            why or "it could not be renewed in time",
        )
        self._lost()

    def _finished(self, trying: asyncio.Task[None]) -> None:
        error = None if trying.cancelled() else trying.exception()
        if error is not None:
            logger.error("a bug: the lease %s is not looked after", self.name, exc_info=error)
            self._lost()
