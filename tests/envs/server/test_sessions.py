"""Sessions of a server whose executor releases environments slowly."""

import asyncio

from corridor_server import red_left_2

from agentrl_envs.environments.corridor import CorridorTasks
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
