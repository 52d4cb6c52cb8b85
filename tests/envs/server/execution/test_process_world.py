"""Sessions in worker processes beside the client."""

import asyncio
import os
import signal
from functools import partial

import pytest
from blocking_tasks import EndlessTasks, HangingTasks, NappingTasks, PausingTasks
from spawned_processes import has_ended, spawned

from agentrl_envs.calls.watch import CallWatch
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


async def test_a_call_that_takes_longer_than_the_timeout_ends_its_process_and_no_other(tmp_path):
    before = spawned()
    hanging = partial(HangingTasks, tmp_path / "hangs")
    world = ProcessWorld(hanging, workers=2, timeout_s=2.0)
    try:
        task = await world.task("train", 0)
        hangs, kept, beside = world.session(), world.session(), world.session()
        await hangs.reset(task)
        (process,) = spawned(but=before)
        await kept.reset(task)
        await beside.reset(task)  # in the process of `hangs`
        step = asyncio.create_task(hangs.step("hang"))
        await asyncio.sleep(0)
        lost = (
            f"was lost when its worker process was ended: step of task {task.id} took longer "
            "than 2 s"
        )
        with pytest.raises(SessionError, match=lost):
            await beside.step("left")
        with pytest.raises(SessionError, match=lost):
            await step
        async with asyncio.timeout(30):  # it was killed, which takes a moment
            while not has_ended(process.pid):
                await asyncio.sleep(0.05)
        assert (await kept.step("left")).wellformed
        assert (await hangs.reset(task)).text == (await kept.reset(task)).text
        assert len(spawned(but=before)) == 2
    finally:
        await world.close()


async def test_the_time_that_a_call_waits_for_others_in_its_process_does_not_count():
    world = ProcessWorld(partial(NappingTasks, 0.4), workers=1, timeout_s=1.5)
    try:
        task = await world.task("train", 0)
        sessions = [world.session() for _ in range(4)]
        await asyncio.gather(*(session.reset(task) for session in sessions))
        steps = await asyncio.gather(*(session.step("nap") for session in sessions))
        assert len(steps) == 4
    finally:
        await world.close()


async def test_a_call_that_hangs_in_a_process_is_reported_and_those_that_wait_for_it_are_not(
    tmp_path,
):
    lines: list[str] = []
    watch = CallWatch(lines.append, first_s=0.3)
    hanging = partial(HangingTasks, tmp_path / "hangs")
    world = ProcessWorld(hanging, workers=1, timeout_s=2.0, watch=watch)
    try:
        task = await world.task("train", 0)
        hangs, waits = world.session(), world.session()
        await asyncio.gather(hangs.reset(task), waits.reset(task))
        lines.clear()  # the start of the process
        waiting = [hangs.step("hang"), waits.step("left")]
        lost = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in lost] == [SessionError, SessionError]
        told = {line.partition(" has been running for ")[0] for line in lines}
        assert told == {f"environment corridor: step of task {task.id}"}
        assert not any(", " in line for line in lines)  # calls that wait for it
    finally:
        await world.close()


async def test_a_process_that_does_not_start_is_reported():
    reported = asyncio.Event()
    loop = asyncio.get_running_loop()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        loop.call_soon_threadsafe(reported.set)

    before = spawned()
    world = ProcessWorld(EndlessTasks, workers=1, watch=CallWatch(report, first_s=0.2))
    reset = asyncio.create_task(world.session().reset(await world.task("train", 0)))
    waiting = asyncio.create_task(reported.wait())
    await asyncio.wait([reset, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert waiting.done()
    assert lines[0].startswith(
        "environment corridor: start of a worker process has been running for "
    )
    for process in spawned(but=before):
        process.kill()
    with pytest.raises(SessionError, match="was lost when its worker process died"):
        await reset
    await world.close()
