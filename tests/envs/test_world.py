"""A task set of this process, whose calls block and run in threads."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from blocking_tasks import BlockingTasks

from agentrl_envs.calls.thread_pool import THREADS
from agentrl_envs.env import Observation, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.world import LocalWorld, Session

TASK = CorridorTasks().task("train", 0)


class MeetingTasks(CorridorTasks):
    """A reset waits until `THREADS` sessions are being reset."""

    def __init__(self) -> None:
        super().__init__()
        self.together = threading.Barrier(THREADS, timeout=30)
        self.threads: set[threading.Thread] = set()
        """Those in which sessions were reset."""

    def environment(self):
        tasks = self

        class MeetingEnvironment(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                tasks.threads.add(threading.current_thread())
                tasks.together.wait()
                return super().reset(task)

        return MeetingEnvironment()


async def test_as_many_calls_run_at_the_same_time_as_on_a_server_whatever_the_cores():
    """Regression: the threads of asyncio were used, four more than the machine has cores."""
    world = LocalWorld(MeetingTasks(), in_threads=True)
    sessions = [world.session() for _ in range(THREADS)]
    observations = await asyncio.gather(*(session.reset(TASK) for session in sessions))
    assert len({observation.text for observation in observations}) == 1
    await world.close()


async def test_the_threads_of_a_world_end_when_it_is_closed():
    tasks = MeetingTasks()
    world = LocalWorld(tasks, in_threads=True)
    sessions = [world.session() for _ in range(THREADS)]
    await asyncio.gather(*(session.reset(TASK) for session in sessions))
    await asyncio.gather(*(session.close() for session in sessions))
    await world.close()
    for thread in tasks.threads:
        await asyncio.to_thread(thread.join, 300)
    assert not any(thread.is_alive() for thread in tasks.threads)


class SlowConstruction(CorridorTasks):
    """The construction of a session waits until `sessions` of them are under way."""

    def __init__(self, sessions: int) -> None:
        super().__init__()
        self.made_in: set[str] = set()
        """Names of the threads."""
        self.together = threading.Barrier(sessions, timeout=30)

    def environment(self) -> CorridorEnvironment:
        self.made_in.add(threading.current_thread().name)
        self.together.wait()
        return CorridorEnvironment()


async def test_environments_that_wait_are_constructed_in_threads_at_the_same_time():
    """Regression: they were constructed on the event loop, which held up all other episodes."""
    tasks = SlowConstruction(8)
    world = LocalWorld(tasks, in_threads=True)
    sessions = [world.session() for _ in range(8)]
    await asyncio.gather(*(session.reset(TASK) for session in sessions))
    assert tasks.made_in == {"environment"}
    await asyncio.gather(*(session.close() for session in sessions))
    await world.close()


class CountedTasks(CorridorTasks):
    made = closed = 0

    def environment(self) -> CorridorEnvironment:
        tasks = self
        tasks.made += 1

        class Counted(CorridorEnvironment):
            def close(self) -> None:
                tasks.closed += 1

        return Counted()


@pytest.mark.parametrize("in_threads", [False, True])
async def test_a_session_holds_no_environment_before_its_first_reset_and_then_one(in_threads):
    tasks = CountedTasks()
    world = LocalWorld(tasks, in_threads=in_threads)
    unused, used = world.session(), world.session()
    await unused.close()
    assert (tasks.made, tasks.closed) == (0, 0)
    for _ in range(2):
        await used.reset(TASK)
        await used.step("left")
    await used.close()
    assert (tasks.made, tasks.closed) == (1, 1)
    await world.close()


async def cancel_in_thread(tasks: BlockingTasks, call: Coroutine[Any, Any, Any]) -> None:
    """Cancel a call that blocks in its thread."""
    tasks.waiting.clear()
    calling = asyncio.create_task(call)
    await asyncio.to_thread(tasks.waiting.wait)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def hanging(tasks: BlockingTasks, world: LocalWorld, name: str) -> Session:
    """A session whose step or reset was cancelled, and hangs in its thread."""
    session = world.session()
    tasks.block_resets = name == "reset"
    if name == "step":
        await session.reset(TASK)
    await cancel_in_thread(tasks, session.step("wait") if name == "step" else session.reset(TASK))
    return session


@pytest.mark.parametrize("name", ["reset", "step"])
async def test_a_cancelled_session_is_closed_when_its_call_returns_and_not_before(name):
    """Regression: it was closed while a reset set up what nobody closed then, or while a step acted
    in a simulator that another session had got meanwhile."""
    tasks = BlockingTasks()
    with tasks.opened_on_exit():
        world = LocalWorld(tasks, in_threads=True, close_s=0)
        session = await hanging(tasks, world, name)
        await session.close()  # does not wait for a call that may hang for ever
        assert tasks.closed == 0
        tasks.gate.set()
        assert await asyncio.to_thread(tasks.any_closed.wait, 300)
        await world.close()


async def test_closing_a_cancelled_session_waits_for_a_call_that_returns():
    """So that the next session finds its place free."""
    tasks = BlockingTasks()
    with tasks.opened_on_exit():
        world = LocalWorld(tasks, in_threads=True, close_s=300)
        session = await hanging(tasks, world, "step")
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)  # it begins
        assert tasks.closed == 0
        tasks.gate.set()
        await closing
        assert tasks.closed == 1
        await world.close()


async def test_a_session_whose_call_returns_after_its_world_was_closed_is_closed_too():
    tasks = BlockingTasks()
    with tasks.opened_on_exit():
        world = LocalWorld(tasks, in_threads=True, close_s=0)
        session = await hanging(tasks, world, "step")
        await session.close()
        await world.close()
        assert tasks.closed == 0
        tasks.gate.set()
        assert await asyncio.to_thread(tasks.any_closed.wait, 300)


async def test_cancelled_calls_that_hang_take_no_threads_from_other_sessions():
    tasks = BlockingTasks()
    with tasks.opened_on_exit():
        world = LocalWorld(tasks, in_threads=True, close_s=0)
        for _ in range(THREADS):
            await (await hanging(tasks, world, "step")).close()
        assert (await world.session().reset(TASK)).text
        tasks.gate.set()
        await world.close()


async def test_a_cancelled_call_that_waits_for_a_thread_is_not_made():
    tasks = BlockingTasks()
    with tasks.opened_on_exit():
        world = LocalWorld(tasks, in_threads=True, close_s=0)
        sessions = [await hanging(tasks, world, "step") for _ in range(THREADS)]
        queued = world.session()
        reset = asyncio.create_task(queued.reset(TASK))
        await asyncio.sleep(0)  # it waits for a thread
        reset.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reset
        tasks.waiting.clear()
        tasks.block_resets = True
        tasks.gate.set()
        await asyncio.gather(queued.close(), *(session.close() for session in sessions))
        assert not tasks.waiting.is_set()
        await world.close()
