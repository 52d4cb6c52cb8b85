"""Environments in threads of the server process.

Suitable for environments that are cheap or that wait for I/O: a browser, another server.
`benchmarks/envs.py` compares it with `ProcessExecutor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from agentrl_envs.calls.thread_pool import THREADS, environment_threads
from agentrl_envs.env import Observation, Step, Task, TaskSet
from agentrl_envs.errors import SessionError
from agentrl_envs.server.execution.environment_pool import EnvironmentPool

P = ParamSpec("P")
T = TypeVar("T")


class ThreadExecutor:
    """Runs environments in threads of this process.

    A thread whose call was abandoned is replaced, because threads cannot be killed. Beyond
    `MAX_ABANDONED_PER_THREAD` hanging calls per thread the executor reports a `problem`."""

    def __init__(self, task_set: TaskSet, *, threads: int = THREADS) -> None:
        self._pool = EnvironmentPool(task_set)
        self._threads = environment_threads(threads)
        self._last_call: dict[str, Future[Any]] = {}

    async def start_programs(self) -> None:
        await asyncio.wrap_future(self._threads.submit(self._pool.start_programs))

    async def reset(self, session: str, task: Task) -> Observation:
        return await self._run_in_thread(session, self._pool.reset, session, task)

    async def step(self, session: str, action: str) -> Step:
        return await self._run_in_thread(session, self._pool.step, session, action)

    async def release(self, session: str) -> None:
        self._last_call.pop(session, None)
        self._pool.release(session)

    def discard(self, session: str) -> None:
        last_call = self._last_call.pop(session, None)
        if last_call is not None:  # runs at once if the call is done, else when its thread returns
            last_call.add_done_callback(lambda _: self._close_in_thread(session))
            self._threads.abandon(last_call)

    @property
    def limits_calls(self) -> bool:
        return False  # threads cannot be killed

    @property
    def problem(self) -> str | None:
        if self._threads.exhausted:
            return f"{self._threads.abandoned} calls into the environment have not returned"
        return None

    async def close(self) -> None:
        self._threads.close()
        self._pool.close()

    def _close_in_thread(self, session: str) -> None:
        """Close the environment, off the event loop: that may wait for another program."""
        with suppress(SessionError):  # no thread serves calls any more: `close` does it
            self._threads.submit(self._pool.discard, session)

    async def _run_in_thread(
        self, session: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        future = self._threads.submit(call, *args, **kwargs)
        self._last_call[session] = future
        return await asyncio.wrap_future(future)
