"""Step batching: sends the steps of many sessions to one server in one request.

Hundreds of episodes may wait for a step at once, and a request for each would cost more than the
steps. Steps that are requested within one iteration of the event loop are sent together (a little
later under load). Each result is delivered as soon as its line arrives, so a slow environment
delays no other. A step whose line does not arrive is sent again alone; steps are numbered, so it is
never taken twice. `benchmarks/client.py` measures the gain.
"""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import dataclass

from agentrl_envs import protocol
from agentrl_envs.client.http import ServerClient
from agentrl_envs.env import Step
from agentrl_envs.errors import ContractError, SessionError, UnreachableError, WorldError

PATH = "/v1/steps"
BATCH_DELAY_S = 0.002
"""Seconds for which steps are collected while another batch is in flight. Without one in flight, a
batch is sent at the end of the event loop's iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingStep:
    request: protocol.SessionStep
    result: asyncio.Future[Step | None]
    """None: send it again, alone."""


class StepBatcher:
    """Steps of one server. To be used from one event loop."""

    def __init__(self, server: ServerClient, *, max_steps: int, call_s: float) -> None:
        """At most `max_steps` steps share a request; with 0 or 1 every step is sent alone. A step
        times out after `call_s` seconds."""
        self._server = server
        self._max_steps = min(max_steps, protocol.MAX_STEPS)
        self._call_s = call_s
        self._collected: list[_PendingStep] = []
        self._in_flight: set[asyncio.Task[None]] = set()

    async def step(self, session: str, n: int, action: str) -> Step:
        """The n-th step of a session. Raises what `ServerClient.post` raises."""
        if self._max_steps > 1 and len(action) <= protocol.MAX_BATCH_CHARS:
            step = await self._step_in_batch(session, n, action)
            if step is not None:
                return step
        request = protocol.StepRequest(n=n, action=action)
        path = f"/v1/sessions/{session}/steps"
        return (await self._server.post(path, request, protocol.StepResponse)).step

    async def close(self) -> None:
        """Cancel the batches in flight."""
        for batch in self._in_flight:
            batch.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _step_in_batch(self, session: str, n: int, action: str) -> Step | None:
        loop = asyncio.get_running_loop()
        request = protocol.SessionStep(session=session, n=n, action=action)
        pending = _PendingStep(request=request, result=loop.create_future())
        if not self._collected and self._in_flight:
            loop.call_later(BATCH_DELAY_S, self._send_collected)
        elif not self._collected:
            loop.call_soon(self._send_collected)
        self._collected.append(pending)
        try:
            async with asyncio.timeout(self._call_s):
                return await pending.result
        except TimeoutError:
            raise UnreachableError(
                f"{self._server.url}: POST {PATH} got no answer in {self._call_s:g} s"
            ) from None

    def _send_collected(self) -> None:
        collected, self._collected = self._collected, []
        batch: list[_PendingStep] = []
        characters = 0
        for pending in collected:
            characters += len(pending.request.action)
            full = len(batch) == self._max_steps or characters > protocol.MAX_BATCH_CHARS
            if batch and full:
                self._send(batch)
                batch, characters = [], len(pending.request.action)
            batch.append(pending)
        self._send(batch)

    def _send(self, batch: list[_PendingStep]) -> None:
        if len(batch) == 1:
            _deliver(batch[0], None)
            return
        task = asyncio.get_running_loop().create_task(self._exchange(batch))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _exchange(self, batch: list[_PendingStep]) -> None:
        request = protocol.StepsRequest(steps=tuple(each.request for each in batch))
        try:
            async with self._server.lines(PATH, request) as lines:
                async for line in lines:
                    self._receive(batch, line)
        except ContractError as error:
            for pending in batch:
                _deliver(pending, copy(error))
        except asyncio.CancelledError:
            closed = SessionError(f"{self._server.url}: the connections were closed meanwhile")
            for pending in batch:
                _deliver(pending, copy(closed))
            raise
        except SessionError:
            pass  # every step without a result is sent again, alone, and gets its own error
        finally:
            for pending in batch:
                _deliver(pending, None)

    def _receive(self, batch: list[_PendingStep], line: bytes) -> None:
        outcome = self._server.read(line, f"POST {PATH}", protocol.StepOutcome)
        if not 0 <= outcome.index < len(batch):
            raise ContractError(
                f"{self._server.url}: POST {PATH}: index is {outcome.index}; the request has "
                f"{len(batch)} steps"
            )
        pending = batch[outcome.index]
        if outcome.error is not None:
            call = f"POST {PATH}: session {pending.request.session}"
            _deliver(pending, self._server.error(outcome.error, call))
        elif outcome.step is not None:
            _deliver(pending, outcome.step)


def _deliver(pending: _PendingStep, result: Step | WorldError | None) -> None:
    """Set the result, unless there is one already."""
    if pending.result.done():
        return
    if isinstance(result, WorldError):
        pending.result.set_exception(result)
    else:
        pending.result.set_result(result)
