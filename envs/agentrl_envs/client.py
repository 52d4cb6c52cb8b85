"""The client: a world behind HTTP, on one server or on several that serve the same tasks.

    async with RemoteTaskSet.connected("http://127.0.0.1:8080") as world:
        session = world.session()
        seen = await session.reset(await world.task("train", 0))
        step = await session.step("left")
        await session.close()

A session lives on the server that opened it. New ones go to the server on which this client holds
the fewest; one that is full or down is passed over for the next.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from agentrl_envs import wire
from agentrl_envs.contract import Referee
from agentrl_envs.convoy import Convoys
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    SessionError,
    TaskError,
    WorldError,
)
from agentrl_envs.transport import Patience, Server

PAGE = 64
"""Tasks that are fetched at once: rollouts ask for one after the other."""
MOST_PAGES = 256


class RemoteTaskSet:
    """The tasks and sessions of a world that is served. Made by `connect` or `connected`."""

    def __init__(
        self, servers: Sequence[Server], served: wire.EnvironmentAnswer, patience: Patience
    ) -> None:
        self.served = served
        self._servers = tuple(servers)
        self._patience = patience
        self._held: Counter[str] = Counter()
        self._queue = asyncio.Lock()
        self._convoys = {
            server.url: Convoys(server, most=served.most_steps, call_s=patience.call_s)
            for server in servers
        }
        self._pages: dict[tuple[Split, int], tuple[Task, ...]] = {}

    @classmethod
    async def connect(
        cls, *urls: str, token: str | None = None, patience: Patience | None = None
    ) -> Self:
        """Ask every server what it serves. Raises `SessionError` where one cannot be reached,
        `WorldError` where the token or the URL is wrong, or two servers serve different tasks."""
        patience = patience or Patience()
        servers = [Server(url, token=token, patience=patience) for url in urls]
        try:
            answers = [
                await server.get("/v1/environment", wire.EnvironmentAnswer) for server in servers
            ]
            for server, answer in zip(servers, answers, strict=True):
                if (answer.name, answer.tasks_hash) != (answers[0].name, answers[0].tasks_hash):
                    raise WorldError(
                        f"url: {server.url} serves {answer.name} {answer.tasks_hash}, but "
                        f"{servers[0].url} serves {answers[0].name} {answers[0].tasks_hash}; "
                        "give servers of one version and the same options"
                    )
        except WorldError:
            for server in servers:
                await server.close()
            raise
        return cls(servers, answers[0], patience)

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, *urls: str, token: str | None = None, patience: Patience | None = None
    ) -> AsyncIterator[Self]:
        """`connect`, closed at the end."""
        world = await cls.connect(*urls, token=token, patience=patience)
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
            path = f"/v1/tasks/{split}"
            answer = await self._servers[0].get(
                path, wire.TasksAnswer, start=page * PAGE, count=PAGE
            )
            tasks = answer.tasks
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
            raise TaskError(f"{self.name}: goals cannot be rewritten by {self._servers[0].url}")
        texts: list[str] = []
        for stretch in _stretches(openings):
            request = wire.RelabelRequest(openings=stretch)
            answer = await self._servers[0].post("/v1/relabel", request, wire.RelabelAnswer)
            if len(answer.texts) != len(stretch):
                raise ContractError(
                    f"{self._servers[0].url}: POST /v1/relabel: texts are {len(answer.texts)}; "
                    f"there were {len(stretch)} openings"
                )
            texts += answer.texts
        return texts

    async def step(self, server: Server, session: str, n: int, action: str) -> Step:
        """A step of a session of this world, on the server that holds it."""
        return await self._convoys[server.url].step(session, n, action)

    async def close(self) -> None:
        """Close the connections. Sessions still open run out of time on their servers."""
        for convoys in self._convoys.values():
            await convoys.close()
        for server in self._servers:
            await server.close()

    async def open(self, task: Task) -> tuple[Server, wire.OpenAnswer]:
        """A place on any server, waiting for one while all are full."""
        deadline = time.monotonic() + self._patience.capacity_s
        try:
            return await self._open_somewhere(task)
        except CapacityError:
            async with self._queue:  # one asks again and again, for all that wait
                return await self._open_in_time(task, deadline)

    async def _open_in_time(self, task: Task, deadline: float) -> tuple[Server, wire.OpenAnswer]:
        while True:
            try:
                return await self._open_somewhere(task)
            except CapacityError as error:
                wait_s = error.retry_after_s * random.uniform(0.1, 1.0)
                if time.monotonic() + wait_s > deadline:
                    raise CapacityError(
                        f"{error}; waited {self._patience.capacity_s:g} s", error.retry_after_s
                    ) from None
                await asyncio.sleep(wait_s)

    async def _open_somewhere(self, task: Task) -> tuple[Server, wire.OpenAnswer]:
        failures: list[SessionError] = []
        for server in sorted(self._servers, key=lambda each: self._held[each.url]):
            try:
                return server, await self.open_on(server, task, replaces=None)
            except SessionError as error:
                failures.append(error)
        full = [error for error in failures if isinstance(error, CapacityError)]
        raise (full or failures)[0]

    async def open_on(self, server: Server, task: Task, *, replaces: str | None) -> wire.OpenAnswer:
        """A place on one server, in the stead of a session that is over."""
        request = wire.OpenRequest(task=task, key=uuid.uuid4().hex, replaces=replaces)
        answer = await server.post("/v1/sessions", request, wire.OpenAnswer)
        self._held[server.url] += 1
        return answer

    def gave_back(self, server: Server) -> None:
        """A session on the server is no longer held."""
        self._held[server.url] -= 1


class RemoteSession:
    """One place on a server, taken at `reset`."""

    def __init__(self, world: RemoteTaskSet) -> None:
        self._world = world
        self._referee = Referee()
        self._server: Server | None = None
        self._id = ""
        self._steps = 0

    async def reset(self, task: Task) -> Observation:
        """Set a task up, in the place that the last episode had or in a new one."""
        server, replaced = self._server, self._id
        self._let_go()
        answer = None
        if server is not None:
            try:
                answer = await self._world.open_on(server, task, replaces=replaced)
            except SessionError:
                server = None
        if server is None or answer is None:
            server, answer = await self._world.open(task)
        self._server, self._id, self._steps = server, answer.id, 0
        return self._referee.reset(answer.observation)

    async def step(self, text: str) -> Step:
        """Take the agent's reply. After a `SessionError` the session must be reset."""
        server = self._server
        if server is None:
            raise SessionError(f"{self._world.name}: no task is set up in this session; reset it")
        try:
            taken = text[: wire.LONGEST_ACTION]
            step = await self._world.step(server, self._id, self._steps + 1, taken)
        except SessionError:
            self._let_go()
            raise
        self._steps += 1
        return self._referee.step(step)

    async def close(self) -> None:
        """Give the place back. One that cannot be given back runs out of time by itself."""
        server, session = self._server, self._id
        self._let_go()
        if server is not None:
            try:
                await server.delete(f"/v1/sessions/{session}")
            except SessionError:
                return

    def _let_go(self) -> None:
        if self._server is not None:
            self._world.gave_back(self._server)
        self._server = None


def _stretches(openings: Sequence[tuple[str, str]]) -> Iterator[tuple[wire.Opening, ...]]:
    """Cut so that each fits in one request."""
    stretch: list[wire.Opening] = []
    characters = 0
    for observation, goal in openings:
        length = len(observation) + len(goal)
        full = len(stretch) == wire.MOST_RELABELLED or characters + length > wire.MOST_TOGETHER
        if stretch and full:
            yield tuple(stretch)
            stretch, characters = [], 0
        if len(observation) > wire.LONGEST_OPENING or len(goal) > wire.LONGEST_GOAL:
            raise TaskError(f"relabel: {goal[:80]!r} and its observation are too long to be sent")
        stretch.append(wire.Opening(observation=observation, goal=goal))
        characters += length
    if stretch:
        yield tuple(stretch)
