"""A world behind HTTP, on one server or on several that serve the same tasks.

    async with RemoteWorld.connected("http://127.0.0.1:8080") as world:
        session = world.session()
        observation = await session.reset(await world.task("train", 0))
        step = await session.step("left")
        await session.close()

A session lives on the server that opened it, and is lost with that server. A new session goes to
the least loaded server; one that is full or down is skipped. Servers may be replaced while the
client runs: see `servers`.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Self

from agentrl_envs import protocol
from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.client.background import Background
from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.relabeling import relabel, relabel_batches
from agentrl_envs.client.servers import Discovery, Member, ServerPool, StaticServers
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.errors import (
    CapacityError,
    SessionError,
    TaskError,
    UnreachableError,
    WorldError,
)

PAGE_SIZE = 64
"""Tasks that are fetched at once: rollouts request consecutive indices."""
MAX_PAGES = 256
"""Pages that are cached."""
CLOSE_S = 1.0
"""Seconds that `RemoteWorld.close` gives to requests that close lost sessions. Their servers only
have to get them: they close a session also if the client is gone."""

OpenResult = tuple[Member, protocol.OpenResponse]
OpenFunction = Callable[[Member], Awaitable[OpenResult]]


class RemoteWorld:
    """The tasks and sessions of a served world. Created by `connect` or `connected`."""

    shared = True

    def __init__(self, servers: ServerPool, options: ClientOptions) -> None:
        self.description = servers.description
        self._servers = servers
        self._options = options
        self._capacity_queue = asyncio.Lock()
        self.waiting = 0
        """Number of resets that wait for a free session while all servers are full."""
        self._pages: dict[tuple[Split, int], asyncio.Task[tuple[Task, ...]]] = {}
        self._background = Background()

    @classmethod
    async def connect(
        cls,
        *urls: str,
        discovery: Discovery | None = None,
        token: str | None = None,
        options: ClientOptions | None = None,
    ) -> Self:
        """Connect to the servers at `urls` or, in their place, to those that `discovery` finds now
        and whenever one is missing. Starts with the servers that answer; the others are used once
        they answer. Raises `SessionError` if none can be reached, `WorldError` if the token or a
        URL is wrong or two servers serve different tasks."""
        options = options or ClientOptions()
        servers = await ServerPool.connect(
            discovery or StaticServers(*urls), token=token, options=options
        )
        return cls(servers, options)

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        *urls: str,
        discovery: Discovery | None = None,
        token: str | None = None,
        options: ClientOptions | None = None,
    ) -> AsyncIterator[Self]:
        """`connect`, closed at the end."""
        world = await cls.connect(*urls, discovery=discovery, token=token, options=options)
        try:
            yield world
        finally:
            await world.close()

    @property
    def name(self) -> str:
        return self.description.name

    def instructions(self) -> str:
        return self.description.instructions

    def vocabulary(self) -> tuple[str, ...] | None:
        return self.description.vocabulary

    def size(self, split: Split) -> int | None:
        return self.description.train if split == "train" else self.description.heldout

    async def task(self, split: Split, index: int) -> Task:
        """The task at `index`; fetches and caches its whole page. Concurrent requests for one page
        share a fetch: sessions that need their next task at the same time would otherwise make
        the server deal the same page many times over."""
        size = self.size(split)
        page, offset = divmod(index if size is None else index % size, PAGE_SIZE)
        fetching = self._pages.get((split, page))
        if fetching is None or (fetching.done() and not _has_result(fetching)):
            fetch = partial(_fetch_page, split=split, start=page * PAGE_SIZE)
            while len(self._pages) >= MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            fetching = asyncio.create_task(self._servers.call(fetch))
            self._pages[split, page] = fetching
        # Not `await`: cancelling this caller must not cancel the fetch for the others.
        await asyncio.wait([fetching])
        return fetching.result()[offset]

    def session(self) -> RemoteSession:
        """A new session; the first `reset` is its first request."""
        return RemoteSession(self)

    @property
    def relabels(self) -> bool:
        return self.description.relabels

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        """As `World.relabel`, in as few requests as the protocol's limits allow."""
        if not self.relabels:
            raise TaskError(f"{self.name}: its servers do not support relabeling")
        texts: list[str] = []
        for batch in relabel_batches(openings):
            texts += await self._servers.call(partial(relabel, openings=batch))
        return texts

    async def step(self, member: Member, session: str, n: int, action: str) -> Step:
        """A step of a session of this world, on the server that holds it."""
        try:
            return await member.batcher.step(session, n, action)
        except UnreachableError as error:
            self._servers.mark_unreachable(member, error)
            raise

    def give_up(self, member: Member, session: str) -> None:
        """Close a session whose step failed, or that another server's replaces, without waiting for
        it. Its server may hold the place still: it does not know that an answer was lost, and may
        be in the step for long."""
        member.renewals.remove(session)
        self._background.start(_close_lost(member, session))

    async def close(self) -> None:
        """Close the connections. Sessions that are still open expire on their servers."""
        for fetching in self._pages.values():
            fetching.cancel()
        await asyncio.gather(*self._pages.values(), return_exceptions=True)
        await self._background.close(CLOSE_S)
        await self._servers.close()

    async def open(self, task: Task, previous: Member | None, replaces: str) -> OpenResult:
        """Open a session: on the server `previous`, in place of the finished session `replaces`,
        or else on any server. Waits for a free session while all servers are full."""
        deadline = time.monotonic() + self._options.capacity_s
        request = protocol.OpenRequest(task=task, key=uuid.uuid4().hex)
        open_on = partial(_open, request=request, previous=previous, replaces=replaces)
        if previous is not None and previous.usable:
            try:
                return await open_on(previous)
            except UnreachableError as error:
                self._servers.mark_unreachable(previous, error)
            except SessionError:
                pass
        try:
            return await self._servers.call(open_on)
        except CapacityError:
            self.waiting += 1
            try:
                async with self._capacity_queue:  # one caller polls, on behalf of all that wait
                    return await self._open_before(deadline, open_on)
            finally:
                self.waiting -= 1

    async def _open_before(self, deadline: float, open_on: OpenFunction) -> OpenResult:
        while True:
            try:
                return await self._servers.call(open_on)
            except CapacityError as error:
                self._servers.start_discovery()  # there may be more servers now
                wait_s = error.retry_after_s * random.uniform(0.1, 1.0)
                if time.monotonic() + wait_s > deadline:
                    raise CapacityError(
                        f"{error}; waited {self._options.capacity_s:g} s", error.retry_after_s
                    ) from None
                await asyncio.sleep(wait_s)


class RemoteSession:
    """One session on a server, opened by `reset`."""

    def __init__(self, world: RemoteWorld) -> None:
        self._world = world
        self._checker = AnswerChecker(world.name)
        self._member: Member | None = None
        self._id = ""
        self._steps = 0

    async def reset(self, task: Task) -> Observation:
        """Set up a task, in place of the previous episode's session or in a new one."""
        previous, self._member = self._member, None
        try:
            self._member, response = await self._world.open(task, previous, self._id)
        finally:
            if previous is not None and previous is self._member:
                _forget(previous, self._id)
            elif previous is not None:  # nobody has told its server that the session is over
                self._world.give_up(previous, self._id)
        self._id, self._steps = response.id, 0
        return self._checker.reset(response.observation, task)

    async def step(self, text: str) -> Step:
        """Take the agent's reply. After a `SessionError` the session must be reset."""
        member = self._member
        if member is None:
            raise SessionError(f"{self._world.name}: this session has no task; call reset first")
        action = text[: protocol.MAX_ACTION_CHARS]
        try:
            step = await self._world.step(member, self._id, self._steps + 1, action)
        except SessionError:
            if self._member is member:  # not closed or reset meanwhile
                self._member = None
                self._world.give_up(member, self._id)
            raise
        self._steps += 1
        if step.terminated or step.truncated:
            member.renewals.remove(self._id)
        return self._checker.step(step)

    async def close(self) -> None:
        """Close the session. If its server cannot be reached, the session expires there."""
        member, self._member = self._member, None
        try:
            if member is not None:
                await member.server.delete(f"/v1/sessions/{self._id}", retry=member.usable)
        except SessionError:
            return
        finally:
            _forget(member, self._id)


def _has_result(task: asyncio.Task[tuple[Task, ...]]) -> bool:
    return not task.cancelled() and task.exception() is None


async def _open(
    member: Member, *, request: protocol.OpenRequest, previous: Member | None, replaces: str
) -> OpenResult:
    if member is previous:
        request = request.model_copy(update={"replaces": replaces})
    opening = asyncio.create_task(
        member.server.post("/v1/sessions", request, protocol.OpenResponse, retry=False)
    )
    try:
        response = await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The server opens the session all the same, and would keep it until it expires.
        with suppress(WorldError):
            unwanted = await opening
            await member.server.delete(f"/v1/sessions/{unwanted.id}", retry=False)
        raise
    member.load += 1
    member.renewals.add(response.id, response.ttl_s)
    return member, response


async def _close_lost(member: Member, session: str) -> None:
    try:
        with suppress(WorldError):  # if the server cannot be reached, the session expires there
            await member.server.delete(f"/v1/sessions/{session}", retry=False)
    finally:
        _forget(member, session)


def _forget(member: Member | None, session: str) -> None:
    """A session on the member is over."""
    if member is not None:
        member.load -= 1
        member.renewals.remove(session)


async def _fetch_page(member: Member, *, split: Split, start: int) -> tuple[Task, ...]:
    response = await member.server.get(
        f"/v1/tasks/{split}", protocol.TasksResponse, retry=False, start=start, count=PAGE_SIZE
    )
    return response.tasks
