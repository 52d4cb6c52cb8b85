import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from blocking_tasks import BlockingTasks, HangingTasks
from spawned_processes import has_ended

from agentrl_envs.env import Environment, Observation, Task, content_id
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.server.execution.process_executor import ProcessExecutor
from agentrl_envs.server.execution.thread_executor import ThreadExecutor


def red_left_2() -> Task:
    payload = {"cells": 5, "start": 2, "side": "left", "colour": "red"}
    return Task(id=content_id("corridor", payload), category="walk-2", payload=payload)


class CountingTasks(CorridorTasks):
    """Counts environments that are created and closed."""

    made = closed = 0
    closed_in: str | None = None
    """Name of the thread that closed the last one."""

    def environment(self) -> Environment:  # type: ignore[override]
        tasks = self
        tasks.made += 1

        class Counted(CorridorEnvironment):
            def close(self) -> None:
                tasks.closed_in = threading.current_thread().name
                tasks.closed += 1

        return Counted()


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not wanted():
            await asyncio.sleep(0.01)


async def test_released_environment_is_reused():
    tasks = CountingTasks()
    executor = ThreadExecutor(tasks)
    for session in ("a", "b", "c"):
        await executor.reset(session, red_left_2())
        await executor.release(session)
    assert tasks.made == 1
    await executor.close()
    assert tasks.closed == 1


async def test_discarded_environment_is_closed_and_not_reused():
    tasks = CountingTasks()
    executor = ThreadExecutor(tasks)
    await executor.reset("a", red_left_2())
    executor.discard("a")
    await until(lambda: tasks.closed == 1)
    await executor.reset("b", red_left_2())
    assert tasks.made == 2
    await executor.close()


async def test_a_discarded_environment_is_closed_in_a_thread_because_that_may_take_long():
    tasks = CountingTasks()
    executor = ThreadExecutor(tasks)
    await executor.reset("a", red_left_2())
    executor.discard("a")
    await until(lambda: tasks.closed == 1)
    assert tasks.closed_in == "environment"
    await executor.close()


async def test_discarded_environment_is_closed_after_its_step_returns():
    tasks = BlockingTasks()
    executor = ThreadExecutor(tasks)
    await executor.reset("a", red_left_2())
    step = asyncio.create_task(executor.step("a", "wait"))
    await until(tasks.waiting.is_set)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    executor.discard("a")
    assert tasks.closed == 0
    tasks.gate.set()
    await until(lambda: tasks.closed == 1)
    with pytest.raises(SessionError):
        await executor.step("a", "left")
    await executor.close()


async def test_sessions_are_spread_over_worker_processes():
    executor = ProcessExecutor(CorridorTasks, workers=2)
    try:
        seen: list[Observation] = [await executor.reset(name, red_left_2()) for name in "abcd"]
        assert {each.text for each in seen} == {"corridor 5 red door left 2"}
        steps = await asyncio.gather(*(executor.step(name, "left") for name in "abcd"))
        assert {step.observation.text for step in steps} == {"corridor 5 red door left 1"}
        with pytest.raises(SessionError):
            await executor.step("e", "left")
    finally:
        await executor.close()


async def test_dead_worker_loses_its_sessions_and_is_replaced():
    executor = ProcessExecutor(CorridorTasks, workers=1)
    try:
        await executor.reset("a", red_left_2())
        await executor.reset("b", red_left_2())
        os.kill(executor.pids[0], signal.SIGKILL)
        with pytest.raises(SessionError, match="was lost when its worker process died"):
            await executor.step("a", "left")
        with pytest.raises(SessionError, match="was lost when its worker process died"):
            await executor.step("b", "left")
        await executor.release("b")
        assert (await executor.reset("c", red_left_2())).text.endswith("left 2")
    finally:
        await executor.close()


async def test_hanging_worker_is_killed_when_its_call_is_cancelled(tmp_path):
    executor = ProcessExecutor(partial(HangingTasks, tmp_path / "hangs"), workers=1)
    try:
        await executor.reset("a", red_left_2())
        hung = executor.pids
        step = asyncio.create_task(executor.step("a", "hang"))
        await until((tmp_path / "hangs").exists)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        executor.discard("a")
        assert (await executor.reset("b", red_left_2())).text.endswith("left 2")
        assert executor.pids != hung
    finally:
        await executor.close()


async def test_close_ends_all_worker_processes():
    executor = ProcessExecutor(CorridorTasks, workers=2)
    for name in "ab":
        await executor.reset(name, red_left_2())
    pids = executor.pids
    assert len(pids) == 2
    await executor.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_worker_exits_when_its_server_is_killed():
    code = """
import asyncio, os
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.execution.process_executor import ProcessExecutor

async def main():
    executor = ProcessExecutor(CorridorTasks, workers=1)
    await executor.reset("a", CorridorTasks().task("train", 0))
    print(executor.pids[0], flush=True)
    os.kill(os.getpid(), 9)

if __name__ == "__main__":
    asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=300)
    pid = int(ran.stdout)
    deadline = time.monotonic() + 300
    while not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    if not has_ended(pid):
        os.kill(pid, signal.SIGKILL)
        raise AssertionError("the worker is still there")
