"""Sessions in worker processes beside the client."""

import asyncio
import os
import signal
from functools import partial

import pytest
from blocking_tasks import PausingTasks
from spawned_processes import spawned

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld


async def seen(world):
    session = world.session()
    first = await session.reset(await world.task("train", 3))
    steps = [await session.step(action) for action in ("right", "jump", "push")]
    await session.close()
    return first, steps


async def test_a_session_answers_as_one_in_this_process():
    world = ProcessWorld(CorridorTasks, workers=1)
    try:
        assert await seen(world) == await seen(LocalWorld(CorridorTasks()))
    finally:
        await world.close()


async def test_processes_start_with_the_first_sessions_and_are_gone_after_close():
    before = spawned()
    world = ProcessWorld(CorridorTasks, workers=2)
    task = await world.task("train", 0)
    assert spawned(but=before) == []
    sessions = [world.session() for _ in range(4)]
    await asyncio.gather(*(session.reset(task) for session in sessions))
    processes = spawned(but=before)
    assert len(processes) == 2
    await world.close()
    assert not any(process.is_running() for process in processes)


async def test_a_killed_process_loses_its_own_sessions_only_and_is_replaced():
    before = spawned()
    world = ProcessWorld(CorridorTasks, workers=2)
    try:
        task = await world.task("train", 0)
        lost, kept = world.session(), world.session()
        await lost.reset(task)
        (process,) = spawned(but=before)
        await kept.reset(task)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(SessionError, match="was lost when its worker process died"):
            await lost.step("left")
        assert (await kept.step("left")).wellformed
        await lost.close()
        assert (await lost.reset(task)).text == (await kept.reset(task)).text
        assert len(spawned(but=before)) == 2
    finally:
        await world.close()


async def test_a_session_that_is_closed_in_the_middle_of_a_step_spares_the_others(tmp_path):
    pause = tmp_path / "pause"
    os.mkfifo(pause)
    world = ProcessWorld(partial(PausingTasks, pause), workers=1)
    try:
        task = await world.task("train", 0)
        cancelled, other = world.session(), world.session()
        await cancelled.reset(task)
        await other.reset(task)
        step = asyncio.create_task(cancelled.step("pause"))
        with await asyncio.to_thread(open, pause, "w"):  # returns when the step reads from it
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            closing = asyncio.create_task(cancelled.close())
            await asyncio.sleep(0)  # the session closes while its step is under way
        await closing
        assert (await other.step("left")).wellformed
    finally:
        await world.close()
