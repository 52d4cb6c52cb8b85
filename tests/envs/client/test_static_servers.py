"""Servers at fixed addresses, some of them unavailable for a time."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from blocking_tasks import BlockingTasks
from corridor_server import HURRIED, PATIENT, red_left_2, served
from starlette.responses import PlainTextResponse

from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import UnreachableError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

UNREACHABLE = "http://127.0.0.1:9"


class PausableServer:
    """A server that responds 503 while `unavailable` is set."""

    def __init__(self, **options) -> None:
        tasks = CorridorTasks()
        self.unavailable = False
        self._app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(**options))

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http" and self.unavailable:
            await PlainTextResponse("away", status_code=503)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def connect_with_retries(url: str, options: ClientOptions) -> RemoteWorld:
    """Connect; repeat on timeouts, so that the short timeouts apply only to later calls."""
    async with asyncio.timeout(300):
        while True:
            with suppress(UnreachableError):
                return await RemoteWorld.connect(url, options=options)


async def test_unavailable_static_server_is_skipped_until_it_is_back():
    server = PausableServer(capacity=1)
    with running(server) as one, served(capacity=1) as other:
        async with RemoteWorld.connected(one, other, options=PATIENT) as remote:
            server.unavailable = True
            first, second = remote.session(), remote.session()
            await first.reset(red_left_2())
            waiting = asyncio.create_task(second.reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            server.unavailable = False
            assert (await waiting).text.endswith("left 2")
            await first.close()
            await second.close()


async def test_session_keeps_its_slot_while_the_server_is_briefly_unavailable():
    server = PausableServer(capacity=1)
    with running(server) as url:
        options = replace(PATIENT, capacity_s=0.1)
        async with RemoteWorld.connected(url, options=options) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            server.unavailable = True
            again = asyncio.create_task(session.reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not again.done()
            server.unavailable = False
            assert (await again).text.endswith("left 2")
            await session.close()


async def test_reset_times_out_on_a_server_that_opens_no_session():
    tasks, options = BlockingTasks(block_resets=True), replace(HURRIED, call_s=1.0)
    with served(tasks) as url, tasks.opened_on_exit():
        remote = await connect_with_retries(url, options)
        with pytest.raises(UnreachableError, match=r"got no answer in 1 s"):
            await remote.session().reset(red_left_2())
        await remote.close()


async def test_connect_succeeds_if_one_server_responds():
    with served() as url:
        async with RemoteWorld.connected(UNREACHABLE, url, options=PATIENT) as remote:
            assert (await remote.session().reset(red_left_2())).text.endswith("left 2")
