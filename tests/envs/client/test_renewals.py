"""Sessions without a call for longer than a server keeps them."""

import asyncio
import json
from contextlib import contextmanager

from corridor_http import FakeClock
from corridor_server import PATIENT, red_left_2
from starlette.responses import PlainTextResponse

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


class Recorded:
    """A server whose renewals are recorded, and its clock."""

    def __init__(self, *, supports: bool = True) -> None:
        self.clock = FakeClock()
        self._tasks = CorridorTasks()
        options = ServerOptions(ttl_s=0.1)
        self._app = create_app(self._tasks, ThreadExecutor(self._tasks), options, clock=self.clock)
        self._supports = supports
        self._renewals: asyncio.Queue[int] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    async def next_renewal(self) -> int:
        """The number of sessions in the next renewal that was answered."""
        return await asyncio.wait_for(self._renewals.get(), 60)

    @contextmanager
    def served(self):
        with running(self) as url:
            yield url

    async def __call__(self, scope, receive, send):
        if scope.get("path") != "/v1/renewals":
            await self._app(scope, receive, send)
            return
        bodies = []

        async def received():
            message = await receive()
            bodies.append(message.get("body", b""))
            return message

        if self._supports:
            await self._app(scope, received, send)
        else:
            await received()
            await PlainTextResponse("no such page", status_code=404)(scope, receive, send)
        sessions = json.loads(b"".join(bodies))["sessions"]
        self._loop.call_soon_threadsafe(self._renewals.put_nowait, len(sessions))


async def test_a_session_does_not_expire_while_its_agent_thinks():
    """Regression: a reply of more than 300 s lost its session."""
    server = Recorded()
    with server.served() as url:
        async with RemoteWorld.connected(url, options=PATIENT) as world:
            session = world.session()
            await session.reset(red_left_2())
            for _ in range(4):
                server.clock.now += 0.08
                for _ in range(2):  # the first one may have been answered before
                    assert await server.next_renewal() == 1
            assert (await session.step("left")).wellformed


async def test_sessions_whose_episode_is_over_are_not_renewed():
    server = Recorded()
    with server.served() as url:
        async with RemoteWorld.connected(url, options=PATIENT) as world:
            over, closed, other = (world.session() for _ in range(3))
            for session in (over, closed, other):
                await session.reset(red_left_2())
            while await server.next_renewal() != 3:
                pass
            for action in ("left", "left", "push"):
                await over.step(action)
            while await server.next_renewal() != 2:
                pass
            await closed.close()
            while await server.next_renewal() != 1:
                pass
            assert (await other.step("left")).wellformed


async def test_servers_that_renew_no_sessions_are_used_all_the_same():
    server = Recorded(supports=False)
    with server.served() as url:
        async with RemoteWorld.connected(url, options=PATIENT) as world:
            session = world.session()
            await session.reset(red_left_2())
            assert await server.next_renewal() == 1
            assert (await session.step("left")).observation.text.endswith("left 1")
