"""A task set of this process, whose calls block and run in threads."""

import asyncio
import threading

from agentrl_envs.calls.thread_pool import THREADS
from agentrl_envs.env import Observation, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.world import LocalWorld

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
