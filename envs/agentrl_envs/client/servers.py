"""The servers of one world, while some stop and others start.

Servers are discovered once, and again only when one is missing. A server that cannot be reached is
not used until a discovery finds it answering: the addresses are looked up, and those that are new
or did not answer are probed. While fewer servers answer than were once found, or all are full,
every call may start a discovery in the background; one runs at a time, the next not before
`ClientOptions.discovery_s`, with exponential backoff while servers stay away. A server whose
address is gone gets no new sessions, and is dropped once its sessions are over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentrl_envs.client.http import ClientOptions, ServerClient
from agentrl_envs.client.renewals import Renewals
from agentrl_envs.client.step_batching import StepBatcher
from agentrl_envs.errors import CapacityError, SessionError, UnreachableError, WorldError
from agentrl_envs.protocol import EnvironmentResponse

PROBE_TIMEOUT_S = 10.0
"""Maximum seconds that a probe waits for a server once the world is connected."""
MAX_BACKOFF = 30.0
"""While servers stay away, the time between discoveries doubles up to this many
`ClientOptions.discovery_s`."""

T = TypeVar("T")


class Discovery(Protocol):
    """Looks up the servers of a world."""

    async def __call__(self) -> Sequence[str]:
        """Their URLs now. Raises `SessionError` if there are none at the moment."""
        ...


class StaticServers:
    """A fixed list of servers."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    async def __call__(self) -> Sequence[str]:
        return self._urls


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One server, and what this client holds there."""

    server: ServerClient
    batcher: StepBatcher
    renewals: Renewals
    description: EnvironmentResponse | None = None
    """None: it has never answered."""
    load: int = 0
    """Sessions and calls of this client. A member with any is not dropped."""
    listed: bool = True
    """Whether its address was in the last discovery."""
    answering: bool = False
    """It answered its last probe or call."""

    @property
    def usable(self) -> bool:
        return self.listed and self.answering


class ServerPool:
    """The servers of one world. Created by `connect`; to be used from one event loop."""

    def __init__(self, discovery: Discovery, *, token: str | None, options: ClientOptions) -> None:
        self._discovery = discovery
        self._token = token
        self._options = options
        self._members: dict[str, Member] = {}
        self._first: tuple[str, EnvironmentResponse] | None = None
        self._max_listed = 0
        """The largest number of servers that a discovery has found."""
        self._last_error = "no server is found"
        self._discovering: asyncio.Task[None] | None = None
        self._discovered_at = 0.0
        self._interval_s = options.discovery_s

    @classmethod
    async def connect(
        cls, discovery: Discovery, *, token: str | None, options: ClientOptions
    ) -> ServerPool:
        """Wait until one server answers; others may join later. Raises `SessionError` if none
        answers in time, `WorldError` if the token or a URL is wrong or two servers serve different
        tasks."""
        pool = cls(discovery, token=token, options=options)
        deadline = time.monotonic() + options.retry_s
        wait_s = 0.1
        async with AsyncExitStack() as cleanup:
            cleanup.push_async_callback(pool.close)
            await pool._discover(options.call_s)
            while not pool._usable():
                if time.monotonic() + wait_s > deadline:
                    raise UnreachableError(pool._last_error)
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, 2.0)
                await pool._discover(options.call_s)
            cleanup.pop_all()
        return pool

    @property
    def description(self) -> EnvironmentResponse:
        """The environment that every server serves, as the first server described it."""
        if self._first is None:
            raise UnreachableError(self._last_error)
        return self._first[1]

    async def call(self, function: Callable[[Member], Awaitable[T]]) -> T:
        """The result of `function` for the first server that can be reached, least loaded first;
        waits while none can be reached. Raises `CapacityError` if all that answer are full, else
        the first error of a server."""
        deadline = time.monotonic() + self._options.retry_s
        while True:
            self._check_health()
            failures: list[SessionError] = []
            for member in sorted(self._usable(), key=lambda each: each.load):
                if not member.usable:  # it was marked unreachable meanwhile
                    continue
                member.load += 1
                try:
                    return await function(member)
                except UnreachableError as error:
                    self.mark_unreachable(member, error)
                except SessionError as error:
                    failures.append(error)
                finally:
                    member.load -= 1
            if failures:
                full = [error for error in failures if isinstance(error, CapacityError)]
                raise (full or failures)[0]
            await self._wait_for_discovery(deadline)

    def mark_unreachable(self, member: Member, error: UnreachableError) -> None:
        """Do not use the member until a discovery finds it answering."""
        member.answering = False
        self._last_error = str(error)
        self._interval_s = self._options.discovery_s
        self.start_discovery()

    def start_discovery(self) -> None:
        """Start a discovery in the background, unless one runs or the last one is too recent."""
        idle = self._discovering is None or self._discovering.done()
        if idle and time.monotonic() >= self._discovered_at + self._interval_s:
            self._raise_discovery_error()
            timeout_s = min(PROBE_TIMEOUT_S, self._options.call_s)
            self._discovering = asyncio.create_task(self._discover(timeout_s))

    async def close(self) -> None:
        """Close the connections."""
        if self._discovering is not None:
            self._discovering.cancel()
            await asyncio.gather(self._discovering, return_exceptions=True)
        for member in self._members.values():
            await _close_member(member)

    def _usable(self) -> list[Member]:
        return [member for member in self._members.values() if member.usable]

    def _check_health(self) -> None:
        """Raise the error of a finished discovery, and start one if servers are missing."""
        self._raise_discovery_error()
        if len(self._usable()) < self._max_listed:
            self.start_discovery()

    def _raise_discovery_error(self) -> None:
        """Raise the error of the last discovery in one caller, which ends the work."""
        if self._discovering is not None and self._discovering.done():
            finished, self._discovering = self._discovering, None
            finished.result()

    async def _wait_for_discovery(self, deadline: float) -> None:
        """Wait for a discovery. Raises `UnreachableError` if there is no time for one."""
        self._interval_s = self._options.discovery_s
        self.start_discovery()
        if self._discovering is None or self._discovering.done():
            wait_s = max(0.0, self._discovered_at + self._interval_s - time.monotonic())
            if time.monotonic() + wait_s > deadline:
                raise UnreachableError(self._last_error)
            await asyncio.sleep(wait_s)
            self.start_discovery()
        elif time.monotonic() > deadline:
            raise UnreachableError(self._last_error)
        if self._discovering is not None:
            # Not `await`: cancelling this caller must not cancel the discovery for the others.
            await asyncio.wait([self._discovering], timeout=max(0.0, deadline - time.monotonic()))

    async def _discover(self, timeout_s: float) -> None:
        """Look up the servers, and probe those that are new or did not answer."""
        try:
            urls = dict.fromkeys(url.rstrip("/") for url in await self._discovery())
            if urls:  # an empty list tells nothing, so known servers are kept
                await self._update_members(list(urls), timeout_s)
        except SessionError as error:
            self._last_error = str(error)
        finally:
            self._discovered_at = time.monotonic()
            missing = len(self._usable()) < self._max_listed
            longest = MAX_BACKOFF * self._options.discovery_s
            backoff_s = min(2 * self._interval_s, longest)
            self._interval_s = backoff_s if missing else self._options.discovery_s

    async def _update_members(self, urls: Sequence[str], timeout_s: float) -> None:
        for url in urls:
            if url not in self._members:
                self._members[url] = self._new_member(url)
        for url, member in self._members.items():
            member.listed = url in urls
        self._max_listed = max(self._max_listed, len(urls))
        probed = [each for each in self._members.values() if each.listed and not each.answering]
        outcomes = await asyncio.gather(
            *(_probe(member.server, timeout_s) for member in probed), return_exceptions=True
        )
        for member, outcome in zip(probed, outcomes, strict=True):
            if isinstance(outcome, SessionError):
                self._last_error = str(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self._admit(member, outcome)
        for url, member in list(self._members.items()):
            if not member.listed and not member.load:
                await _close_member(member)
                del self._members[url]

    def _new_member(self, url: str) -> Member:
        server = ServerClient(url, token=self._token, options=self._options)
        batcher = StepBatcher(server, max_steps=0, call_s=self._options.call_s)
        return Member(server=server, batcher=batcher, renewals=Renewals(server))

    def _admit(self, member: Member, description: EnvironmentResponse) -> None:
        """Use a server that answered. Raises `WorldError` if its tasks differ from the first's."""
        url = member.server.url
        if self._first is None:
            self._first = url, description
        first_url, first = self._first
        if (description.name, description.tasks_hash) != (first.name, first.tasks_hash):
            raise WorldError(
                f"url: {url} serves {description.name} {description.tasks_hash}, but {first_url} "
                f"serves {first.name} {first.tasks_hash}; use servers of one version with the same "
                "options"
            )
        if member.description is None:
            max_steps = description.most_steps if self._options.batch_steps else 0
            member.batcher = StepBatcher(
                member.server, max_steps=max_steps, call_s=self._options.call_s
            )
        member.description = description
        member.answering = True


async def _probe(server: ServerClient, timeout_s: float) -> EnvironmentResponse:
    try:
        async with asyncio.timeout(timeout_s):
            return await server.get("/v1/environment", EnvironmentResponse, retry=False)
    except TimeoutError:
        raise UnreachableError(
            f"{server.url}: GET /v1/environment got no answer in {timeout_s:g} s"
        ) from None


async def _close_member(member: Member) -> None:
    await member.renewals.close()
    await member.batcher.close()
    await member.server.close()
