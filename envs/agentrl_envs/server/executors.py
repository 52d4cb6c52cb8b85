"""Hosts: where the environments of a server run, off the event loop.

`ThreadHost` runs them in threads of the server's process: right for environments that are cheap or
that wait (a browser, another server), since waiting threads cost nothing. `ProcessHost` spreads
sessions over worker processes, one call at a time in each: right for environments that compute,
which in threads would share one interpreter lock with the event loop. A session stays in the
process that opened it. `benchmarks/envs.py` measures both.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, ParamSpec, Protocol, TypeVar

from agentrl_envs.env import Observation, Step, Task, TaskSet
from agentrl_envs.errors import SessionError
from agentrl_envs.server.room import Room

TaskSetFactory = Callable[[], TaskSet]
"""Makes the task set. Must be picklable for `ProcessHost`: a module's function or a partial."""

P = ParamSpec("P")
T = TypeVar("T")


DISMISS_S = 5.0
"""Seconds that a worker is given to close its environments."""


class Host(Protocol):
    """Runs sessions. Calls of one session must come one by one."""

    async def reset(self, session: str, task: Task) -> Observation: ...

    async def step(self, session: str, action: str) -> Step: ...

    async def release(self, session: str) -> None:
        """The session is over; its environment may serve another."""
        ...

    def discard(self, session: str) -> None:
        """The session failed, or its last call was given up; its environment is not to be used
        again. Does not wait for what still runs."""
        ...

    async def close(self) -> None:
        """Close every environment and stop what runs them."""
        ...


class ThreadHost:
    """Environments in threads of this process."""

    def __init__(self, task_set: TaskSet, *, threads: int = 32) -> None:
        self._room = Room(task_set)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="environment")
        self._last: dict[str, Future[Any]] = {}

    async def reset(self, session: str, task: Task) -> Observation:
        return await self._in_thread(session, self._room.reset, session, task)

    async def step(self, session: str, action: str) -> Step:
        return await self._in_thread(session, self._room.step, session, action)

    async def release(self, session: str) -> None:
        self._last.pop(session, None)
        self._room.release(session)

    def discard(self, session: str) -> None:
        last = self._last.pop(session, None)
        if last is not None:  # at once when it is done, else when its thread comes back
            last.add_done_callback(lambda _: self._room.discard(session))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._room.close()

    async def _in_thread(
        self, session: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        future = self._threads.submit(call, *args, **kwargs)
        self._last[session] = future
        return await asyncio.wrap_future(future)


@dataclass(slots=True, eq=False)
class _Worker:
    pool: ProcessPoolExecutor
    pid: int | None = None
    """Known once the process has started."""


class ProcessHost:
    """Environments in worker processes; a session is pinned to the least busy one when it opens.

    A worker that dies takes its sessions with it (`SessionError`) and is replaced. One that hangs
    in a call that was given up is killed: it would hang its other sessions too."""

    def __init__(self, factory: TaskSetFactory, *, workers: int) -> None:
        self._factory = factory
        self._workers = [self._hired() for _ in range(workers)]
        self._pinned: dict[str, _Worker] = {}
        self._last: dict[str, Future[Any]] = {}

    async def reset(self, session: str, task: Task) -> Observation:
        if session not in self._pinned:
            held = Counter(id(worker) for worker in self._pinned.values())
            self._pinned[session] = min(self._workers, key=lambda worker: held[id(worker)])
        return await self._in_worker(session, _reset, session, task)

    async def step(self, session: str, action: str) -> Step:
        return await self._in_worker(session, _step, session, action)

    async def release(self, session: str) -> None:
        try:
            await self._in_worker(session, _release, session)
        except SessionError:
            return  # it went down with its worker: nothing is held any more
        self._forget(session)

    def discard(self, session: str) -> None:
        worker, last = self._pinned.get(session), self._last.get(session)
        self._forget(session)
        if worker is None:
            return
        if last is not None and last.running():
            _kill(worker)
            self._replace(worker)
        else:
            worker.pool.submit(_discard, session)

    async def close(self) -> None:
        await asyncio.gather(*(self._dismissed(worker) for worker in self._workers))

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that have started."""
        return tuple(worker.pid for worker in self._workers if worker.pid is not None)

    async def _in_worker(
        self, session: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        worker = self._pinned.get(session)
        if worker is None:
            raise SessionError(f"session {session!r} went down with its worker")
        try:
            if worker.pid is None:
                worker.pid = await asyncio.wrap_future(worker.pool.submit(os.getpid))
            if worker not in self._workers:  # another call gave it up meanwhile
                raise BrokenProcessPool
            future = worker.pool.submit(call, *args, **kwargs)
            self._last[session] = future
            return await asyncio.wrap_future(future)
        except BrokenProcessPool:
            self._replace(worker)
            raise SessionError(f"session {session!r} went down with its worker") from None

    def _replace(self, broken: _Worker) -> None:
        """Once, however many calls were waiting on the worker that died."""
        if broken in self._workers:
            self._workers[self._workers.index(broken)] = self._hired()
            for session in [name for name, at in self._pinned.items() if at is broken]:
                self._forget(session)
            broken.pool.shutdown(wait=False)

    def _forget(self, session: str) -> None:
        self._pinned.pop(session, None)
        self._last.pop(session, None)

    async def _dismissed(self, worker: _Worker) -> None:
        if worker.pid is not None:
            try:
                async with asyncio.timeout(DISMISS_S):
                    await asyncio.wrap_future(worker.pool.submit(_close))
            except (TimeoutError, BrokenProcessPool):
                _kill(worker)
        await asyncio.to_thread(worker.pool.shutdown, wait=True, cancel_futures=True)

    def _hired(self) -> _Worker:
        return _Worker(
            ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_furnish, initargs=(self._factory,)
            )
        )


def _kill(worker: _Worker) -> None:
    if worker.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)


# In a worker process: its room, and the calls that reach it.

_rooms: list[Room] = []


def _furnish(factory: TaskSetFactory) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    threading.Thread(target=_leave_with_the_server, daemon=True).start()
    _rooms.append(Room(factory()))


def _leave_with_the_server() -> None:
    """A server that is killed cannot tell its workers; they would wait for work for ever."""
    server = parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def _reset(session: str, task: Task) -> Observation:
    return _rooms[0].reset(session, task)


def _step(session: str, action: str) -> Step:
    return _rooms[0].step(session, action)


def _release(session: str) -> None:
    _rooms[0].release(session)


def _discard(session: str) -> None:
    _rooms[0].discard(session)


def _close() -> None:
    _rooms[0].close()
