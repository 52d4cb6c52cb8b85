"""The fleet: the servers of one world, while some go and others come.

Nobody looks for servers while all is well. One that cannot be reached is left alone, and a look
begins: the addresses are found anew, and those of them that are new or did not answer are asked
what they serve. While fewer answer than once did, or all are full, every call may begin a look in
passing; there is one at a time, the next not before `Patience.look_s`, and later and later while
servers stay away. A server whose address is gone takes nothing new, and is forgotten once its
sessions are over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentrl_envs.client.http import Patience, Server
from agentrl_envs.client.step_batching import Convoys
from agentrl_envs.errors import CapacityError, SessionError, UnreachableError, WorldError
from agentrl_envs.protocol import EnvironmentResponse

PROBE_S = 10.0
"""Seconds that a server is given to say what it serves, at most, once the world is open."""
RARELY = 30.0
"""While servers stay away, the time between two looks doubles, up to so many `Patience.look_s`."""

T = TypeVar("T")


class Find(Protocol):
    """A way to find the servers of a world."""

    async def __call__(self) -> Sequence[str]:
        """Their URLs as of now. Raises `SessionError` where there are none at the moment."""
        ...


class Fixed:
    """Servers that are always found where they were."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    async def __call__(self) -> Sequence[str]:
        return self._urls


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """A server, and what this client has there."""

    server: Server
    convoys: Convoys
    served: EnvironmentResponse | None = None
    """What it serves; None: it has never answered."""
    held: int = 0
    """Sessions and calls of this client. A member with any is not forgotten."""
    found: bool = True
    """Its address was among those found last."""
    answers: bool = False
    """It did when it was asked last."""

    @property
    def usable(self) -> bool:
        return self.found and self.answers


class Fleet:
    """The servers of one world. Made by `gathered`; to be used from one event loop."""

    def __init__(self, find: Find, *, token: str | None, patience: Patience) -> None:
        self._find = find
        self._token = token
        self._patience = patience
        self._members: dict[str, Member] = {}
        self._first: tuple[str, EnvironmentResponse] | None = None
        self._most = 0
        """Servers that were found at once."""
        self._why = "no server is found"
        """How the last one failed that did."""
        self._looking: asyncio.Task[None] | None = None
        self._looked = 0.0
        self._gap_s = patience.look_s

    @classmethod
    async def gathered(cls, find: Find, *, token: str | None, patience: Patience) -> Fleet:
        """The servers that answer, once one does; the others may come later. Raises
        `SessionError` where none answers in time, `WorldError` where the token or a URL is wrong,
        or two serve different tasks."""
        fleet = cls(find, token=token, patience=patience)
        deadline = time.monotonic() + patience.retry_s
        wait_s = 0.1
        async with AsyncExitStack() as opened:
            opened.push_async_callback(fleet.close)
            await fleet._look(patience.call_s)
            while not fleet._usable():
                if time.monotonic() + wait_s > deadline:
                    raise UnreachableError(fleet._why)
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, 2.0)
                await fleet._look(patience.call_s)
            opened.pop_all()
        return fleet

    @property
    def served(self) -> EnvironmentResponse:
        """What every server serves, as the first said it."""
        if self._first is None:
            raise UnreachableError(self._why)
        return self._first[1]

    async def ask(self, call: Callable[[Member], Awaitable[T]]) -> T:
        """What the first server answers that can be reached, the one that holds the fewest of our
        sessions before the others; waits while none can be reached. Raises `CapacityError` where
        those that answer are full, and what else they refuse with."""
        deadline = time.monotonic() + self._patience.retry_s
        while True:
            self._mind()
            failures: list[SessionError] = []
            for member in sorted(self._usable(), key=lambda each: each.held):
                if not member.usable:  # meanwhile
                    continue
                member.held += 1
                try:
                    return await call(member)
                except UnreachableError as error:
                    self.suspect(member, error)
                except SessionError as error:
                    failures.append(error)
                finally:
                    member.held -= 1
            if failures:
                full = [error for error in failures if isinstance(error, CapacityError)]
                raise (full or failures)[0]
            await self._look_in_time(deadline)

    def suspect(self, member: Member, error: UnreachableError) -> None:
        """The member could not be reached: it is left alone until a look finds it answering."""
        member.answers = False
        self._why = str(error)
        self._gap_s = self._patience.look_s
        self.look()

    def look(self) -> None:
        """Begin to look for servers, unless that is under way, or was done a moment ago."""
        idle = self._looking is None or self._looking.done()
        if idle and time.monotonic() >= self._looked + self._gap_s:
            self._raise_refusal()
            self._looking = asyncio.create_task(self._look(min(PROBE_S, self._patience.call_s)))

    async def close(self) -> None:
        """Close the connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for member in self._members.values():
            await _leave(member)

    def _usable(self) -> list[Member]:
        return [member for member in self._members.values() if member.usable]

    def _mind(self) -> None:
        """What every call does in passing."""
        self._raise_refusal()
        if len(self._usable()) < self._most:
            self.look()

    def _raise_refusal(self) -> None:
        """What the last look found wrong is told to one caller, who ends the work."""
        if self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            looked.result()

    async def _look_in_time(self, deadline: float) -> None:
        """A look that is waited for. Raises `UnreachableError` where there is no time for it."""
        self._gap_s = self._patience.look_s
        self.look()
        if self._looking is None or self._looking.done():
            wait_s = max(0.0, self._looked + self._gap_s - time.monotonic())
            if time.monotonic() + wait_s > deadline:
                raise UnreachableError(self._why)
            await asyncio.sleep(wait_s)
            self.look()
        elif time.monotonic() > deadline:
            raise UnreachableError(self._why)
        if self._looking is not None:
            # Not `await`: whoever is cancelled here must not cancel it for the others.
            await asyncio.wait([self._looking], timeout=max(0.0, deadline - time.monotonic()))

    async def _look(self, within_s: float) -> None:
        """Find the servers, and ask those that are new or were silent what they serve."""
        try:
            urls = dict.fromkeys(url.rstrip("/") for url in await self._find())
            if urls:  # none: nothing is known, so those that are known stay
                await self._muster(list(urls), within_s)
        except SessionError as error:
            self._why = str(error)
        finally:
            self._looked = time.monotonic()
            short = len(self._usable()) < self._most
            longest = RARELY * self._patience.look_s
            self._gap_s = min(2 * self._gap_s, longest) if short else self._patience.look_s

    async def _muster(self, urls: Sequence[str], within_s: float) -> None:
        for url in urls:
            if url not in self._members:
                self._members[url] = self._member(url)
        for url, member in self._members.items():
            member.found = url in urls
        self._most = max(self._most, len(urls))
        asked = [each for each in self._members.values() if each.found and not each.answers]
        outcomes = await asyncio.gather(
            *(_probe(member.server, within_s) for member in asked), return_exceptions=True
        )
        for member, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, SessionError):
                self._why = str(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self._take_in(member, outcome)
        for url, member in list(self._members.items()):
            if not member.found and not member.held:
                await _leave(member)
                del self._members[url]

    def _member(self, url: str) -> Member:
        server = Server(url, token=self._token, patience=self._patience)
        convoys = Convoys(server, most=0, call_s=self._patience.call_s)
        return Member(server=server, convoys=convoys)

    def _take_in(self, member: Member, served: EnvironmentResponse) -> None:
        """Raises `WorldError` for a server of other tasks than the first's."""
        url = member.server.url
        if self._first is None:
            self._first = url, served
        first_url, first = self._first
        if (served.name, served.tasks_hash) != (first.name, first.tasks_hash):
            raise WorldError(
                f"url: {url} serves {served.name} {served.tasks_hash}, but {first_url} serves "
                f"{first.name} {first.tasks_hash}; give servers of one version and the same options"
            )
        if member.served is None:
            member.convoys = Convoys(
                member.server, most=served.most_steps, call_s=self._patience.call_s
            )
        member.served = served
        member.answers = True


async def _probe(server: Server, within_s: float) -> EnvironmentResponse:
    try:
        async with asyncio.timeout(within_s):
            return await server.get("/v1/environment", EnvironmentResponse, patient=False)
    except TimeoutError:
        raise UnreachableError(
            f"{server.url}: GET /v1/environment got no answer in {within_s:g} s"
        ) from None


async def _leave(member: Member) -> None:
    await member.convoys.close()
    await member.server.close()
