"""Concurrent steps share a request, and neither delay nor affect each other."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from blocking_tasks import BlockingTasks
from corridor_server import HURRIED, PATIENT, red_left_2, served
from starlette.datastructures import Headers

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Step
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import ContractError, SessionError
from agentrl_envs.protocol import TIMEOUT_HEADER
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


async def test_concurrent_steps_share_one_request():
    requests: Counter[str] = Counter()
    app = create_app(CorridorTasks(), ThreadExecutor(CorridorTasks()), ServerOptions(token="t"))

    async def counting(scope, receive, send):
        requests[scope.get("path", "")] += 1
        await app(scope, receive, send)

    with running(counting) as url:
        async with RemoteWorld.connected(url, token="t") as remote:
            sessions = [remote.session() for _ in range(40)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            for _ in range(3):
                steps = await asyncio.gather(*(session.step("left") for session in sessions))
                assert len({step.observation.text for step in steps}) == 1
    assert requests["/v1/steps"] == 3
    assert not [path for path in requests if path.endswith("/steps") and path != "/v1/steps"]


async def test_slow_step_does_not_delay_other_steps_of_its_request():
    tasks = BlockingTasks()
    with served(tasks) as url, tasks.opened_on_exit():
        async with RemoteWorld.connected(url) as remote:
            slow, quick = remote.session(), remote.session()
            await asyncio.gather(slow.reset(red_left_2()), quick.reset(red_left_2()))
            pending = asyncio.create_task(slow.step("wait"))
            assert (await quick.step("left")).observation.text.endswith("left 1")
            assert not pending.done()
            tasks.gate.set()
            assert (await pending).wellformed is False


async def test_step_times_out_after_the_configured_time():
    """`environments[].timeoutS`. AgentGym waits 2,400 s regardless of its configuration."""
    tasks = BlockingTasks()
    with served(tasks) as url, tasks.opened_on_exit():
        async with RemoteWorld.connected(url, options=replace(PATIENT, call_s=1.0)) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match=r"got no answer in 1 s"):
                await session.step("wait")


async def test_servers_are_told_when_the_client_gives_up():
    given: set[tuple[str, str | None]] = set()
    app = create_app(CorridorTasks(), ThreadExecutor(CorridorTasks()), ServerOptions())

    async def recording(scope, receive, send):
        if scope["type"] == "http":
            given.add((scope["path"], Headers(scope=scope).get(TIMEOUT_HEADER)))
        await app(scope, receive, send)

    with running(recording) as url:
        async with RemoteWorld.connected(url, options=replace(PATIENT, call_s=299.5)) as remote:
            sessions = [remote.session() for _ in range(2)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            await asyncio.gather(*(session.step("left") for session in sessions))
    assert {("/v1/sessions", "299.5"), ("/v1/steps", "299.5")} <= given


async def test_error_in_one_step_does_not_affect_other_steps_of_its_request():
    class FaultyTasks(CorridorTasks):
        def environment(self):
            class FaultyEnvironment(CorridorEnvironment):
                def step(self, action: str) -> Step:
                    if action == "mine":
                        raise KeyError(action)
                    step = super().step(action)
                    return replace(step, reward=7.0) if action == "lie" else step

            return FaultyEnvironment()

    with served(FaultyTasks()) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            sessions = [remote.session() for _ in range(4)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            actions = ("left", "mine", "lie", "left")
            results = await asyncio.gather(
                *(s.step(action) for s, action in zip(sessions, actions, strict=True)),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [Step, SessionError, ContractError, Step]
            assert "KeyError: 'mine'" in str(results[1])
            assert "reward is 7.0" in str(results[2])
            with pytest.raises(SessionError, match="call reset first"):
                await sessions[1].step("left")


async def test_steps_without_a_response_are_retried_one_by_one_and_executed_once():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    dropped: list[str] = []

    async def dropping(scope, receive, send):
        """Execute the first batch of steps and respond to it without a body."""

        async def send_without_body(message):
            if message["type"] == "http.response.start":
                await send(message)
            elif not message["more_body"]:
                dropped.append(scope["path"])
                await send(message)

        together = scope["type"] == "http" and scope["path"] == "/v1/steps"
        await app(scope, receive, send_without_body if together and not dropped else send)

    with running(dropping) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            sessions = [remote.session() for _ in range(3)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            for action, expected in (("left", "left 1"), ("right", "left 2")):
                steps = await asyncio.gather(*(session.step(action) for session in sessions))
                assert [step.observation.text.endswith(expected) for step in steps] == [True] * 3
    assert dropped == ["/v1/steps"]


async def test_closing_a_world_fails_its_steps_in_flight():
    tasks = BlockingTasks()
    with served(tasks) as url, tasks.opened_on_exit():
        remote = await RemoteWorld.connect(url)
        sessions = [remote.session() for _ in range(2)]
        await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
        steps = [asyncio.create_task(session.step("wait")) for session in sessions]
        assert await asyncio.to_thread(tasks.waiting.wait, 300)
        await remote.close()
        for step in steps:
            with pytest.raises(SessionError, match="were closed meanwhile"):
                await step
