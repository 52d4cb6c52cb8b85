"""Servers at fixed addresses, while one of them is away."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from corridor_server import HURRIED, PATIENT, red_left_2, served
from held_up import Gated
from starlette.responses import PlainTextResponse

from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import UnreachableError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.executors import ThreadExecutor
from agentrl_envs.server.run import running

NOBODY = "http://127.0.0.1:9"


class Door:
    """A server behind a proxy that says, while it is shut, that nobody is there."""

    def __init__(self, **options) -> None:
        tasks = CorridorTasks()
        self.away = False
        self._app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(**options))

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http" and self.away:
            await PlainTextResponse("away", status_code=503)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def joined(url: str, options: ClientOptions) -> RemoteWorld:
    """A world, asked for as often as it takes: its patience is for what comes then."""
    async with asyncio.timeout(300):
        while True:
            with suppress(UnreachableError):
                return await RemoteWorld.connect(url, options=options)


async def test_a_fixed_server_is_passed_over_while_it_is_away_and_taken_in_when_it_is_back():
    door = Door(capacity=1)
    with running(door) as one, served(capacity=1) as other:
        async with RemoteWorld.connected(one, other, options=PATIENT) as remote:
            door.away = True
            first, second = remote.session(), remote.session()
            await first.reset(red_left_2())
            waiting = asyncio.create_task(second.reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            door.away = False
            assert (await waiting).text.endswith("left 2")
            await first.close()
            await second.close()


async def test_a_session_keeps_its_place_on_a_server_that_was_away_for_a_moment():
    door = Door(capacity=1)
    with running(door) as url:
        options = replace(PATIENT, capacity_s=0.1)
        async with RemoteWorld.connected(url, options=options) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            door.away = True
            again = asyncio.create_task(session.reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not again.done()
            door.away = False
            assert (await again).text.endswith("left 2")
            await session.close()


async def test_a_server_that_answers_but_opens_no_session_in_time_is_not_asked_for_ever():
    stuck, options = Gated(shut=True), replace(HURRIED, call_s=1.0)
    with served(stuck) as url, stuck.opened_at_last():
        remote = await joined(url, options)
        with pytest.raises(UnreachableError, match=r"got no answer in 1 s"):
            await remote.session().reset(red_left_2())
        await remote.close()


async def test_a_world_opens_with_the_servers_that_answer():
    with served() as url:
        async with RemoteWorld.connected(NOBODY, url, options=PATIENT) as remote:
            assert (await remote.session().reset(red_left_2())).text.endswith("left 2")
