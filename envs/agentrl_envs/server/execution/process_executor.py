"""Environments in worker processes, one call at a time in each.

Suitable for environments that compute, which would otherwise share one interpreter lock with the
event loop. A session stays in the process that opened it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Any, ParamSpec, TypeVar

from agentrl_envs.calls.stop_iteration import without_stop_iteration
from agentrl_envs.calls.watch import WATCH, Call, CallWatch
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import SessionError
from agentrl_envs.server.execution.call_queue import CallQueue
from agentrl_envs.server.execution.environment_pool import EnvironmentPool
from agentrl_envs.server.execution.executor import TaskSetFactory

P = ParamSpec("P")
T = TypeVar("T")


WORKER_STOP_TIMEOUT_S = 5.0
"""Seconds that a worker is given to close its environments."""


@dataclass(slots=True, eq=False)
class _Worker:
    executor: ProcessPoolExecutor
    calls: CallQueue
    pid: int | None = None
    """None until the process has started."""
    end: str = "its worker process died"
    """How its sessions were lost, if they were."""


class ProcessExecutor:
    """Runs environments in worker processes. A session is assigned to the worker with the fewest
    sessions when it opens, and stays there.

    A worker that dies takes its sessions with it (`SessionError`) and is replaced. So is one that
    makes a call for longer than `timeout_s`, abandoned or not: it is killed, because it blocks its
    other sessions too. Without `timeout_s` one that makes an abandoned call is killed at once."""

    def __init__(
        self,
        factory: TaskSetFactory,
        *,
        workers: int,
        name: str = "",
        timeout_s: float | None = None,
        watch: CallWatch = WATCH,
    ) -> None:
        """`name` is that of the environment in notes of `watch`. `timeout_s`: seconds that a call
        may take once the worker makes it. None: callers abandon the calls that take too long."""
        self._factory = factory
        self._name = name
        self._timeout_s = timeout_s
        self._watch = watch
        self._workers = [self._new_worker() for _ in range(workers)]
        self._worker_of: dict[str, _Worker] = {}
        self._task_of: dict[str, Task] = {}
        self._last_call: dict[str, Future[Any]] = {}

    async def start_programs(self) -> None:
        await asyncio.gather(*map(self._start_programs_of, self._workers))

    async def reset(self, session: str, task: Task) -> Observation:
        if session not in self._worker_of:
            load = Counter(id(worker) for worker in self._worker_of.values())
            self._worker_of[session] = min(self._workers, key=lambda worker: load[id(worker)])
        self._task_of[session] = task
        return await self._run_in_worker("reset", session, _reset, session, task)

    async def step(self, session: str, action: str) -> Step:
        return await self._run_in_worker("step", session, _step, session, action)

    async def release(self, session: str) -> None:
        try:
            await self._run_in_worker("release", session, _release, session)
        except SessionError:
            return  # its worker has died, so nothing is held
        self._forget(session)

    def discard(self, session: str) -> None:
        worker, last_call = self._worker_of.get(session), self._last_call.get(session)
        close = self._call("close", session)
        self._forget(session)
        if worker is None:
            return
        # `running` says little: a call is that already while it waits behind another one.
        if not self.limits_calls and last_call is not None and last_call.running():
            _kill(worker)
            self._replace(worker)
        else:
            worker.calls.add(worker.executor.submit(_discard, session), close)

    async def close(self) -> None:
        await asyncio.gather(*(self._stop(worker) for worker in self._workers))

    @property
    def limits_calls(self) -> bool:
        return self._timeout_s is not None

    @property
    def problem(self) -> str | None:
        return None  # a worker that hangs or dies is replaced

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that have started."""
        return tuple(worker.pid for worker in self._workers if worker.pid is not None)

    async def _run_in_worker(
        self, name: str, session: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        worker = self._worker_of.get(session)
        if worker is None:
            raise SessionError(f"session {session!r} was lost when its worker process died")
        try:
            await self._started(worker)
            if worker not in self._workers:  # another call has replaced it meanwhile
                raise BrokenProcessPool
            made = partial(call, *args, **kwargs)
            future = worker.executor.submit(without_stop_iteration, made)
            worker.calls.add(future, self._call(name, session))
            self._last_call[session] = future
            return await asyncio.wrap_future(future)
        except BrokenProcessPool:
            self._replace(worker)
            raise SessionError(f"session {session!r} was lost when {worker.end}") from None

    def _call(self, name: str, session: str) -> Call:
        return self._watch.call(self._name, name, self._task_of.get(session))

    async def _started(self, worker: _Worker) -> None:
        """Returns when the process has started. Raises `BrokenProcessPool` if it dies before."""
        if worker.pid is None:
            future = worker.executor.submit(os.getpid)
            start = self._watch.call(self._name, "start of a worker process")
            worker.calls.add(future, start, limited=False)
            worker.pid = await asyncio.wrap_future(future)

    def _end(self, worker: _Worker, call: Call) -> None:
        """End a worker because of a call that takes too long."""
        worker.end = f"its worker process was ended: {call} took longer than {self._timeout_s:g} s"
        _kill(worker)
        self._replace(worker)

    async def _start_programs_of(self, worker: _Worker) -> None:
        try:
            await self._started(worker)
            call = worker.executor.submit(without_stop_iteration, _start_programs)
            await asyncio.wrap_future(call)
        except BrokenProcessPool:
            self._replace(worker)
            raise SessionError("a worker process died while its programs started") from None

    def _replace(self, broken: _Worker) -> None:
        """Replace a worker once, however many calls were waiting for it."""
        if broken in self._workers:
            self._workers[self._workers.index(broken)] = self._new_worker()
            for session in [name for name, at in self._worker_of.items() if at is broken]:
                self._forget(session)
            broken.executor.shutdown(wait=False)

    def _forget(self, session: str) -> None:
        self._worker_of.pop(session, None)
        self._task_of.pop(session, None)
        self._last_call.pop(session, None)

    async def _stop(self, worker: _Worker) -> None:
        if worker.pid is not None:
            try:
                async with asyncio.timeout(WORKER_STOP_TIMEOUT_S):
                    call = worker.executor.submit(without_stop_iteration, _close)
                    await asyncio.wrap_future(call)
            except (TimeoutError, BrokenProcessPool):
                _kill(worker)
        await asyncio.to_thread(worker.executor.shutdown, wait=True, cancel_futures=True)

    def _new_worker(self) -> _Worker:
        executor = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_initialize_worker,
            initargs=(self._factory,),
        )
        calls = CallQueue(self._watch, self._timeout_s, lambda call: self._end(worker, call))
        worker = _Worker(executor, calls)
        return worker


def _kill(worker: _Worker) -> None:
    if worker.pid is not None:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)


# The rest runs in a worker process. The pool is a global because ProcessPoolExecutor's initializer
# can hand over its result in no other way.

_pools: list[EnvironmentPool] = []


def _initialize_worker(factory: TaskSetFactory) -> None:
    # The server, or the run, handles Ctrl-C and a terminal that is closed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    _pools.append(EnvironmentPool(factory()))


def _exit_with_parent() -> None:
    """A server that is killed cannot stop its workers; without this they would wait for ever."""
    server = parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def _start_programs() -> None:
    _pools[0].start_programs()


def _reset(session: str, task: Task) -> Observation:
    return _pools[0].reset(session, task)


def _step(session: str, action: str) -> Step:
    return _pools[0].step(session, action)


def _release(session: str) -> None:
    _pools[0].release(session)


def _discard(session: str) -> None:
    _pools[0].discard(session)


def _close() -> None:
    _pools[0].close()
