"""The client: a world behind HTTP, on one server or on several that serve the same tasks.

    async with RemoteTaskSet.connected("http://127.0.0.1:8080") as world:
        session = world.session()
        seen = await session.reset(await world.task("train", 0))
        step = await session.step("left")
        await session.close()

A session lives on the server that opened it, and is lost with it. New ones go to the server on
which this client holds the fewest; one that is full or down is passed over for the next. Servers
may go and others come in their stead: see `fleet`.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

from agentrl_envs import protocol
from agentrl_envs.answer_check import AnswerChecker
from agentrl_envs.client.http import Patience
from agentrl_envs.client.servers import Find, Fixed, Fleet, Member
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    SessionError,
    TaskError,
    UnreachableError,
)

PAGE = 64
"""Tasks that are fetched at once: rollouts ask for one after the other."""
MOST_PAGES = 256

Opened = tuple[Member, protocol.OpenResponse]
Opening = Callable[[Member], Awaitable[Opened]]


class RemoteTaskSet:
    """The tasks and sessions of a world that is served. Made by `connect` or `connected`."""

    def __init__(self, fleet: Fleet, patience: Patience) -> None:
        self.served = fleet.served
        self._fleet = fleet
        self._patience = patience
        self._queue = asyncio.Lock()
        self._pages: dict[tuple[Split, int], tuple[Task, ...]] = {}

    @classmethod
    async def connect(
        cls,
        *urls: str,
        find: Find | None = None,
        token: str | None = None,
        patience: Patience | None = None,
    ) -> Self:
        """Ask every server what it serves: those at `urls`, or in their stead those that `find`
        finds, now and whenever one is missed. Begins with those that answer; the others are taken
        in when they do. Raises `SessionError` where none can be reached, `WorldError` where the
        token or a URL is wrong, or two servers serve different tasks."""
        patience = patience or Patience()
        fleet = await Fleet.gathered(find or Fixed(*urls), token=token, patience=patience)
        return cls(fleet, patience)

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        *urls: str,
        find: Find | None = None,
        token: str | None = None,
        patience: Patience | None = None,
    ) -> AsyncIterator[Self]:
        """`connect`, closed at the end."""
        world = await cls.connect(*urls, find=find, token=token, patience=patience)
        try:
            yield world
        finally:
            await world.close()

    @property
    def name(self) -> str:
        return self.served.name

    def instructions(self) -> str:
        return self.served.instructions

    def vocabulary(self) -> tuple[str, ...] | None:
        return self.served.vocabulary

    def size(self, split: Split) -> int | None:
        return self.served.train if split == "train" else self.served.heldout

    async def task(self, split: Split, index: int) -> Task:
        """The task at `index`; its neighbours are fetched with it and kept."""
        size = self.size(split)
        page, offset = divmod(index if size is None else index % size, PAGE)
        tasks = self._pages.get((split, page))
        if tasks is None:
            tasks = await self._fleet.ask(partial(_page, split=split, start=page * PAGE))
            while len(self._pages) >= MOST_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[split, page] = tasks
        return tasks[offset]

    def session(self) -> RemoteSession:
        """A new session; nothing is asked of a server before its first `reset`."""
        return RemoteSession(self)

    @property
    def relabels(self) -> bool:
        return self.served.relabels

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        """As `World.relabel`, in as few calls as the protocol's bounds allow."""
        if not self.relabels:
            raise TaskError(f"{self.name}: goals cannot be rewritten by its servers")
        texts: list[str] = []
        for stretch in _stretches(openings):
            texts += await self._fleet.ask(partial(_rewritten, openings=stretch))
        return texts

    async def step(self, member: Member, session: str, n: int, action: str) -> Step:
        """A step of a session of this world, on the server that holds it."""
        try:
            return await member.convoys.step(session, n, action)
        except UnreachableError as error:
            self._fleet.suspect(member, error)
            raise

    async def close(self) -> None:
        """Close the connections. Sessions still open run out of time on their servers."""
        await self._fleet.close()

    async def open(self, task: Task, before: Member | None, replaces: str) -> Opened:
        """A place: on the server `before`, in the stead of a session that is over, or else on any
        server, waiting for one while all are full."""
        deadline = time.monotonic() + self._patience.capacity_s
        somewhere = partial(
            _opened,
            request=protocol.OpenRequest(task=task, key=uuid.uuid4().hex),
            before=before,
            replaces=replaces,
        )
        if before is not None and before.usable:
            try:
                return await somewhere(before)
            except UnreachableError as error:
                self._fleet.suspect(before, error)
            except SessionError:
                pass
        try:
            return await self._fleet.ask(somewhere)
        except CapacityError:
            async with self._queue:  # one asks again and again, for all that wait
                return await self._open_in_time(somewhere, deadline)

    async def _open_in_time(self, somewhere: Opening, deadline: float) -> Opened:
        while True:
            try:
                return await self._fleet.ask(somewhere)
            except CapacityError as error:
                self._fleet.look()  # there may be more servers than before
                wait_s = error.retry_after_s * random.uniform(0.1, 1.0)
                if time.monotonic() + wait_s > deadline:
                    raise CapacityError(
                        f"{error}; waited {self._patience.capacity_s:g} s", error.retry_after_s
                    ) from None
                await asyncio.sleep(wait_s)


class RemoteSession:
    """One place on a server, taken at `reset`."""

    def __init__(self, world: RemoteTaskSet) -> None:
        self._world = world
        self._checker = AnswerChecker()
        self._member: Member | None = None
        self._id = ""
        self._steps = 0

    async def reset(self, task: Task) -> Observation:
        """Set a task up, in the place that the last episode had or in a new one."""
        before, self._member = self._member, None
        try:
            self._member, answer = await self._world.open(task, before, self._id)
        finally:
            _give_back(before)
        self._id, self._steps = answer.id, 0
        return self._checker.reset(answer.observation)

    async def step(self, text: str) -> Step:
        """Take the agent's reply. After a `SessionError` the session must be reset."""
        member = self._member
        if member is None:
            raise SessionError(f"{self._world.name}: no task is set up in this session; reset it")
        try:
            taken = text[: protocol.MAX_ACTION_CHARS]
            step = await self._world.step(member, self._id, self._steps + 1, taken)
        except SessionError:
            if self._member is member:  # and not closed or reset meanwhile
                self._member = None
                _give_back(member)
            raise
        self._steps += 1
        return self._checker.step(step)

    async def close(self) -> None:
        """Give the place back. One that cannot be given back runs out of time by itself."""
        member, self._member = self._member, None
        try:
            if member is not None:
                path = f"/v1/sessions/{self._id}"
                await member.server.delete(path, patient=member.usable)
        except SessionError:
            return
        finally:
            _give_back(member)


async def _opened(
    member: Member, *, request: protocol.OpenRequest, before: Member | None, replaces: str
) -> Opened:
    if member is before:
        request = request.model_copy(update={"replaces": replaces})
    answer = await member.server.post("/v1/sessions", request, protocol.OpenResponse, patient=False)
    member.held += 1
    return member, answer


def _give_back(member: Member | None) -> None:
    """A session on the server is no longer held."""
    if member is not None:
        member.held -= 1


async def _page(member: Member, *, split: Split, start: int) -> tuple[Task, ...]:
    path = f"/v1/tasks/{split}"
    answer = await member.server.get(
        path, protocol.TasksResponse, patient=False, start=start, count=PAGE
    )
    return answer.tasks


async def _rewritten(member: Member, *, openings: tuple[protocol.Relabel, ...]) -> tuple[str, ...]:
    request = protocol.RelabelRequest(openings=openings)
    answer = await member.server.post(
        "/v1/relabel", request, protocol.RelabelResponse, patient=False
    )
    if len(answer.texts) != len(openings):
        raise ContractError(
            f"{member.server.url}: POST /v1/relabel: texts are {len(answer.texts)}; there were "
            f"{len(openings)} openings"
        )
    return answer.texts


def _stretches(openings: Sequence[tuple[str, str]]) -> Iterator[tuple[protocol.Relabel, ...]]:
    """Cut so that each fits in one request."""
    stretch: list[protocol.Relabel] = []
    characters = 0
    for observation, goal in openings:
        length = len(observation) + len(goal)
        full = (
            len(stretch) == protocol.MAX_RELABELS or characters + length > protocol.MAX_BATCH_CHARS
        )
        if stretch and full:
            yield tuple(stretch)
            stretch, characters = [], 0
        if len(observation) > protocol.MAX_OBSERVATION_CHARS or len(goal) > protocol.MAX_GOAL_CHARS:
            raise TaskError(f"relabel: {goal[:80]!r} and its observation are too long to be sent")
        stretch.append(protocol.Relabel(observation=observation, goal=goal))
        characters += length
    if stretch:
        yield tuple(stretch)
