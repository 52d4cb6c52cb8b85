"""Sessions of a server whose environments take their time."""

import asyncio

from corridor_server import red_left_2

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.executors import ThreadExecutor
from agentrl_envs.server.metrics import Metrics
from agentrl_envs.server.sessions import Sessions


class Reluctant(ThreadExecutor):
    """Gives environments back when it is let."""

    def __init__(self) -> None:
        super().__init__(CorridorTasks())
        self.asked, self.let = asyncio.Event(), asyncio.Event()

    async def release(self, session: str) -> None:
        self.asked.set()
        await self.let.wait()
        await super().release(session)


async def test_who_comes_back_while_others_are_reaped_keeps_its_session():
    host, now = Reluctant(), [0.0]
    sessions = Sessions(
        host,
        Metrics(environment="corridor", capacity=2),
        capacity=2,
        ttl_s=10.0,
        timeout_s=60.0,
        clock=lambda: now[0],
    )
    await sessions.open(red_left_2(), "gone")
    back, _ = await sessions.open(red_left_2(), "back")
    now[0] = 11.0
    closing = asyncio.create_task(sessions.close_expired())
    await host.asked.wait()
    await sessions.step(back, 1, "left")
    host.let.set()
    assert await closing == 1
    assert (await sessions.step(back, 2, "left")).observation.text == "corridor 5 red door here"
    await sessions.close_all()
