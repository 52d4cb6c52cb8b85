"""Sessions whose step got no answer: the client closes them, and their places are free again."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from blocking_tasks import BlockingTasks
from corridor_server import HURRIED, PATIENT, red_left_2
from starlette.requests import Request
from starlette.responses import Response

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import UnreachableError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


@asynccontextmanager
async def after_a_lost_step(url, action):
    """Another client of a server, after one has closed its session whose step got no answer."""
    async with (
        RemoteWorld.connected(url, options=HURRIED) as one,
        RemoteWorld.connected(url, options=replace(PATIENT, capacity_s=30)) as other,
    ):
        session = one.session()
        await session.reset(red_left_2())
        with pytest.raises(UnreachableError):
            await session.step(action)
        await session.close()
        yield other


async def test_a_session_whose_step_got_no_answer_leaves_its_place_to_others():
    """Regression: the server kept it until it expired, five minutes later."""
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(capacity=1))

    async def without_steps(scope, receive, send):
        if scope["type"] == "http" and scope["path"].endswith("/steps"):
            await Response(status_code=502)(scope, receive, send)
        else:
            await app(scope, receive, send)

    with running(without_steps) as url:
        async with after_a_lost_step(url, "left") as other:
            assert (await other.session().reset(red_left_2())).text.endswith("left 2")


async def test_closing_a_session_does_not_wait_for_its_step_that_got_no_answer_and_hangs():
    tasks = BlockingTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(capacity=1))
    steps = []

    async def unanswered(scope, receive, send):
        if scope["type"] != "http" or not scope["path"].endswith("/steps"):
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()

        async def whole_body():
            return {"type": "http.request", "body": body}

        async def nowhere(message):
            pass

        if not steps:  # the others are repetitions
            steps.append(asyncio.create_task(app(scope, whole_body, nowhere)))
        await Response(status_code=502)(scope, receive, send)

    with tasks.opened_on_exit(), running(unanswered) as url:
        async with after_a_lost_step(url, "wait") as other:
            assert await asyncio.to_thread(tasks.waiting.wait, 300)
            tasks.gate.set()
            assert (await other.session().reset(red_left_2())).text.endswith("left 2")
