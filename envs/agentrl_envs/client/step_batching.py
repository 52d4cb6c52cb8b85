"""Convoys: steps of many sessions that go to one server in one request.

Hundreds of episodes may await a step at once; a request for each would cost more than the steps.
What is asked within one turn of the event loop leaves together (a little later under load), and
each answer is handed over when its line comes, so a slow environment holds up nobody else. A step
whose line does not come, for whatever reason, is asked for again alone: steps are numbered, so it
is not taken twice.
"""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import dataclass

from agentrl_envs import protocol
from agentrl_envs.client.http import Server
from agentrl_envs.env import Step
from agentrl_envs.errors import ContractError, SessionError, UnreachableError, WorldError

PATH = "/v1/steps"
GATHER_S = 0.002
"""Seconds that steps gather while others are under way; what is asked by nobody else leaves at
once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passenger:
    asked: protocol.SessionStep
    outcome: asyncio.Future[Step | None]
    """None: ask again, alone."""


class Convoys:
    """Steps to one server. To be used from one event loop."""

    def __init__(self, server: Server, *, most: int, call_s: float) -> None:
        """`most` steps go together; with 0 or 1 each goes alone. One that has waited `call_s`
        seconds is lost."""
        self._server = server
        self._most = min(most, protocol.MAX_STEPS)
        self._call_s = call_s
        self._gathering: list[_Passenger] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def step(self, session: str, n: int, action: str) -> Step:
        """The n-th step of a session. Raises what `Server.post` raises."""
        if self._most > 1 and len(action) <= protocol.MAX_BATCH_CHARS:
            step = await self._together(session, n, action)
            if step is not None:
                return step
        request = protocol.StepRequest(n=n, action=action)
        path = f"/v1/sessions/{session}/steps"
        return (await self._server.post(path, request, protocol.StepResponse)).step

    async def close(self) -> None:
        """Give up what is under way."""
        for convoy in self._under_way:
            convoy.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _together(self, session: str, n: int, action: str) -> Step | None:
        loop = asyncio.get_running_loop()
        asked = protocol.SessionStep(session=session, n=n, action=action)
        passenger = _Passenger(asked=asked, outcome=loop.create_future())
        if not self._gathering and self._under_way:
            loop.call_later(GATHER_S, self._depart)
        elif not self._gathering:
            loop.call_soon(self._depart)
        self._gathering.append(passenger)
        try:
            async with asyncio.timeout(self._call_s):
                return await passenger.outcome
        except TimeoutError:
            raise UnreachableError(
                f"{self._server.url}: POST {PATH} got no answer in {self._call_s:g} s"
            ) from None

    def _depart(self) -> None:
        gathered, self._gathering = self._gathering, []
        convoy: list[_Passenger] = []
        characters = 0
        for passenger in gathered:
            characters += len(passenger.asked.action)
            if convoy and (len(convoy) == self._most or characters > protocol.MAX_BATCH_CHARS):
                self._send(convoy)
                convoy, characters = [], len(passenger.asked.action)
            convoy.append(passenger)
        self._send(convoy)

    def _send(self, convoy: list[_Passenger]) -> None:
        if len(convoy) == 1:
            _hand_over(convoy[0], None)
            return
        task = asyncio.get_running_loop().create_task(self._travel(convoy))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _travel(self, convoy: list[_Passenger]) -> None:
        request = protocol.StepsRequest(steps=tuple(each.asked for each in convoy))
        try:
            async with self._server.lines(PATH, request) as lines:
                async for line in lines:
                    self._arrive(convoy, line)
        except ContractError as error:
            for passenger in convoy:
                _hand_over(passenger, copy(error))
        except asyncio.CancelledError:
            closed = SessionError(f"{self._server.url}: the connections were closed meanwhile")
            for passenger in convoy:
                _hand_over(passenger, copy(closed))
            raise
        except SessionError:
            pass  # whoever still waits asks again, alone, and hears why
        finally:
            for passenger in convoy:
                _hand_over(passenger, None)

    def _arrive(self, convoy: list[_Passenger], line: bytes) -> None:
        outcome = self._server.read(line, f"POST {PATH}", protocol.StepOutcome)
        if not 0 <= outcome.index < len(convoy):
            raise ContractError(
                f"{self._server.url}: POST {PATH}: index is {outcome.index}; there are "
                f"{len(convoy)} steps"
            )
        passenger = convoy[outcome.index]
        if outcome.error is not None:
            call = f"POST {PATH}: session {passenger.asked.session}"
            _hand_over(passenger, self._server.error(outcome.error, call))
        elif outcome.step is not None:
            _hand_over(passenger, outcome.step)


def _hand_over(passenger: _Passenger, outcome: Step | WorldError | None) -> None:
    """Once; to a passenger that still waits."""
    if passenger.outcome.done():
        return
    if isinstance(outcome, WorldError):
        passenger.outcome.set_exception(outcome)
    else:
        passenger.outcome.set_result(outcome)
