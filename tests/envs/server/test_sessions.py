"""Sessions of a server whose executor is slow, or limits the time of calls itself."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from blocking_tasks import PausingTasks
from corridor_server import red_left_2

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.execution.process_executor import ProcessExecutor
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.metrics import Metrics
from agentrl_envs.server.sessions import Sessions


class BlockingExecutor(ThreadExecutor):
    """Releases environments only once `allowed` is set."""

    def __init__(self) -> None:
        super().__init__(CorridorTasks())
        self.requested, self.allowed = asyncio.Event(), asyncio.Event()

    async def release(self, session: str) -> None:
        self.requested.set()
        await self.allowed.wait()
        await super().release(session)


async def test_session_used_while_others_are_reaped_is_kept():
    executor, now = BlockingExecutor(), [0.0]
    sessions = Sessions(
        executor,
        Metrics(environment="corridor", capacity=2),
        capacity=2,
        ttl_s=10.0,
        timeout_s=60.0,
        clock=lambda: now[0],
    )
    await sessions.open(red_left_2(), "gone")
    used, _ = await sessions.open(red_left_2(), "back")
    now[0] = 11.0
    closing = asyncio.create_task(sessions.close_expired())
    await executor.requested.wait()
    await sessions.step(used, 1, "left")
    executor.allowed.set()
    assert await closing == 1
    assert (await sessions.step(used, 2, "left")).observation.text == "corridor 5 red door here"
    await sessions.close_all()


@asynccontextmanager
async def in_one_process(pipe: Path, *, timeout_s: float) -> AsyncIterator[Sessions]:
    """Sessions in one worker process, which may make a call for longer than `timeout_s`."""
    os.mkfifo(pipe)
    sessions = Sessions(
        ProcessExecutor(partial(PausingTasks, pipe), workers=1, timeout_s=300.0),
        Metrics(environment="corridor", capacity=2),
        capacity=2,
        ttl_s=300.0,
        timeout_s=timeout_s,
    )
    try:
        yield sessions
    finally:
        await sessions.close_all()


async def test_the_time_that_a_call_waits_for_its_process_does_not_count(tmp_path):
    """Regression: the session was lost, and its process ended with all others in it."""
    async with in_one_process(tmp_path / "pipe", timeout_s=0.001) as sessions:
        session, _ = await sessions.open(red_left_2(), "a")  # waits for the start of the process
        assert (await sessions.step(session, 1, "left")).wellformed


async def test_a_call_that_is_abandoned_in_its_time_spares_the_other_sessions(tmp_path):
    pipe = tmp_path / "pipe"
    async with in_one_process(pipe, timeout_s=300.0) as sessions:
        abandoned, _ = await sessions.open(red_left_2(), "a")
        other, _ = await sessions.open(red_left_2(), "b")
        step = asyncio.create_task(sessions.step(abandoned, 1, "pause"))
        with await asyncio.to_thread(open, pipe, "w"):  # returns when the step reads from it
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
        assert (await sessions.step(other, 1, "left")).wellformed
