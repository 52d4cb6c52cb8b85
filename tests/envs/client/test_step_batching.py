"""Steps that travel together: none waits for, fails with, or is taken twice for another."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from corridor_server import HURRIED, PATIENT, red_left_2, served
from held_up import Gated

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Step
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import ContractError, SessionError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.executors import ThreadExecutor
from agentrl_envs.server.run import running


async def test_steps_that_are_asked_at_once_travel_in_one_request():
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


async def test_a_slow_step_holds_up_none_that_travels_with_it():
    tasks = Gated()
    with served(tasks) as url, tasks.opened_at_last():
        async with RemoteWorld.connected(url) as remote:
            slow, quick = remote.session(), remote.session()
            await asyncio.gather(slow.reset(red_left_2()), quick.reset(red_left_2()))
            late = asyncio.create_task(slow.step("wait"))
            assert (await quick.step("left")).observation.text.endswith("left 1")
            assert not late.done()
            tasks.gate.set()
            assert (await late).wellformed is False


async def test_a_step_is_waited_for_as_long_as_the_manifest_says_and_no_longer():
    """`environments[].timeoutS`. Upstream waits 2,400 s, whatever it is told."""
    tasks = Gated()
    with served(tasks) as url, tasks.opened_at_last():
        async with RemoteWorld.connected(url, options=replace(PATIENT, call_s=1.0)) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match=r"got no answer in 1 s"):
                await session.step("wait")


async def test_what_happens_to_one_step_does_not_touch_those_that_travel_with_it():
    class Touchy(CorridorTasks):
        def environment(self):
            class Mined(CorridorEnvironment):
                def step(self, action: str) -> Step:
                    if action == "mine":
                        raise KeyError(action)
                    step = super().step(action)
                    return replace(step, reward=7.0) if action == "lie" else step

            return Mined()

    with served(Touchy()) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            sessions = [remote.session() for _ in range(4)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            actions = ("left", "mine", "lie", "left")
            fell = await asyncio.gather(
                *(s.step(action) for s, action in zip(sessions, actions, strict=True)),
                return_exceptions=True,
            )
            assert [type(each) for each in fell] == [Step, SessionError, ContractError, Step]
            assert "KeyError: 'mine'" in str(fell[1])
            assert "reward is 7.0" in str(fell[2])
            with pytest.raises(SessionError, match="call reset first"):
                await sessions[1].step("left")


async def test_steps_whose_answers_stay_away_are_asked_for_again_alone_and_taken_once():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    cut: list[str] = []

    async def cutting(scope, receive, send):
        """Takes the steps, and answers no lines, the first time."""

        async def headless(message):
            if message["type"] == "http.response.start":
                await send(message)
            elif not message["more_body"]:
                cut.append(scope["path"])
                await send(message)

        together = scope["type"] == "http" and scope["path"] == "/v1/steps"
        await app(scope, receive, headless if together and not cut else send)

    with running(cutting) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            sessions = [remote.session() for _ in range(3)]
            await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
            for action, expected in (("left", "left 1"), ("right", "left 2")):
                steps = await asyncio.gather(*(session.step(action) for session in sessions))
                assert [step.observation.text.endswith(expected) for step in steps] == [True] * 3
    assert cut == ["/v1/steps"]


async def test_steps_under_way_when_a_world_is_closed_are_lost_and_say_so():
    tasks = Gated()
    with served(tasks) as url, tasks.opened_at_last():
        remote = await RemoteWorld.connect(url)
        sessions = [remote.session() for _ in range(2)]
        await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
        steps = [asyncio.create_task(session.step("wait")) for session in sessions]
        assert await asyncio.to_thread(tasks.waits.wait, 300)
        await remote.close()
        for step in steps:
            with pytest.raises(SessionError, match="were closed meanwhile"):
                await step
