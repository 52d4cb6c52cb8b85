"""Environments over HTTP: episodes, session slots, and connection errors."""

import asyncio
import time

import pytest
from blocking_tasks import BlockingTasks
from corridor_http import FakeClock
from corridor_server import HURRIED, PATIENT, red_left_2, served
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.conformance.faults import Faults, FaultyTaskSet
from agentrl_envs.env import Task, TaskSet
from agentrl_envs.environments.corridor import CorridorOptions, CorridorTasks
from agentrl_envs.errors import CapacityError, SessionError, TaskError, WorldError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_envs.world import LocalWorld, World


async def test_episode_over_http_equals_episode_in_process():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            local = LocalWorld(CorridorTasks())
            for world in (remote, local):
                assert isinstance(world, World)
            assert remote.instructions() == local.instructions()
            assert remote.vocabulary() == local.vocabulary()
            assert (remote.size("train"), remote.size("heldout")) == (97, 23)
            task = await remote.task("heldout", 5)
            assert task == await local.task("heldout", 5)
            there, here = remote.session(), local.session()
            assert await there.reset(task) == await here.reset(task)
            for action in ("left", "nonsense", "right", "right"):
                assert await there.step(action) == await here.step(action)
            await there.close()
            await there.close()


async def test_concurrent_requests_for_a_page_share_one_fetch():
    """Regression: 64 sessions made the server generate the same 64 tasks up to 64 times."""

    class Counting(CorridorTasks):
        generated = 0

        def size(self, split):
            return None

        def task(self, split, index):
            self.generated += split == "train"
            time.sleep(0.001)
            return super().task(split, index)

    tasks = Counting()
    with served(tasks) as url:
        async with RemoteWorld.connected(url) as remote:
            for page in range(3):
                asked = [remote.task("train", 64 * page + offset) for offset in range(64)]
                cancelled = asyncio.create_task(remote.task("train", 64 * page))
                await asyncio.sleep(0)
                cancelled.cancel()
                generated = await asyncio.gather(*asked)
                assert [task.id for task in generated] == [
                    CorridorTasks().task("train", 64 * page + offset).id for offset in range(64)
                ]
            assert tasks.generated <= 3 * 64 + 2  # plus two slices of the search for the last page


async def test_page_is_fetched_again_after_an_error():
    class Failing(CorridorTasks):
        failures = 1

        def task(self, split, index):
            if split == "train" and self.failures:
                self.failures -= 1
                raise TaskError("index: not now")
            return super().task(split, index)

    with served(Failing()) as url:
        async with RemoteWorld.connected(url) as remote:
            with pytest.raises(TaskError, match="not now"):
                await remote.task("train", 0)
            assert await remote.task("train", 0) == CorridorTasks().task("train", 0)


async def test_index_beyond_the_split_wraps_around():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            assert await remote.task("heldout", 23 * 7 + 3) == await remote.task("heldout", 3)


async def test_session_keeps_its_slot_across_episodes():
    with served(capacity=1) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            session = remote.session()
            for _ in range(3):
                assert (await session.reset(red_left_2())).text.endswith("left 2")
                await session.step("left")
            await session.close()


async def test_64_concurrent_sessions_receive_their_own_observations():
    tasks = CorridorTasks()

    async def episode(world: World, index: int) -> list[str]:
        session = world.session()
        seen = [(await session.reset(await world.task("train", index))).text]
        for action in ("left", "right", "left"):
            seen.append((await session.step(action)).observation.text)
        await session.close()
        return seen

    with served(tasks, capacity=64) as url:
        async with RemoteWorld.connected(url) as remote:
            there = await asyncio.gather(*(episode(remote, index) for index in range(64)))
    here = [await episode(LocalWorld(tasks), index) for index in range(64)]
    assert there == here


async def test_reset_waits_for_a_slot_on_a_full_server():
    with served(capacity=1) as url:
        async with RemoteWorld.connected(url, options=PATIENT) as remote:
            first, second = remote.session(), remote.session()
            await first.reset(red_left_2())
            waiting = asyncio.create_task(second.reset(red_left_2()))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await first.close()
            assert (await waiting).text.endswith("left 2")
            await second.close()


async def test_server_that_stays_full_raises_capacity_error_with_the_time_waited():
    with served(capacity=1) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            first = remote.session()
            await first.reset(red_left_2())
            with pytest.raises(CapacityError, match=r"all 1 sessions are in use; waited 0\.3 s"):
                await remote.session().reset(red_left_2())


async def test_expired_session_raises_session_error_and_can_be_reset():
    clock = FakeClock()
    with served(ttl_s=0.2, clock=clock) as url:
        async with RemoteWorld.connected(url) as remote:
            session = remote.session()
            await session.reset(red_left_2())

            async def step_until_expired():
                while True:  # the server checks for expired sessions every 0.05 s
                    clock.now += 0.3
                    await asyncio.sleep(0.1)
                    await session.step("no action")

            with pytest.raises(SessionError, match="is not open"):
                await asyncio.wait_for(step_until_expired(), 300)
            assert (await session.reset(red_left_2())).text.endswith("left 2")
            await session.close()


async def test_session_lost_by_its_environment_raises_session_error():
    with served(FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match="on purpose"):
                await session.step("left")
            with pytest.raises(SessionError, match="call reset first"):
                await session.step("left")


async def test_step_before_reset_raises_session_error():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            with pytest.raises(SessionError, match="has no task"):
                await remote.session().step("left")


async def test_task_of_another_environment_raises_task_error():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            with pytest.raises(TaskError, match=r"payload\.cells"):
                await remote.session().reset(Task(id="x-0", category="x", payload={}))


async def test_unreachable_server_raises_session_error_with_the_url():
    with pytest.raises(SessionError, match=r"http://127\.0\.0\.1:9: .*cannot reach the server"):
        await RemoteWorld.connect("http://127.0.0.1:9", options=HURRIED)


async def test_invalid_url_raises_world_error():
    with pytest.raises(WorldError, match="nonsense"):
        await RemoteWorld.connect("nonsense", options=HURRIED)


async def test_request_with_a_wrong_token_is_not_retried():
    tasks, asked = CorridorTasks(), []
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(token=SecretStr("sesame")))

    async def counting(scope, receive, send):
        if scope["type"] == "http":
            asked.append(scope["path"])
        await app(scope, receive, send)

    with running(counting) as url:
        with pytest.raises(WorldError, match="check the token") as caught:
            await RemoteWorld.connect(url, token="wrong", options=PATIENT)
        assert not isinstance(caught.value, SessionError)
        assert asked == ["/v1/environment"]
        async with RemoteWorld.connected(url, token="sesame") as remote:
            assert remote.name == "corridor"


async def test_server_of_another_kind_raises_world_error():
    async def page(request: Request) -> Response:
        return PlainTextResponse("hello", status_code=404)

    refused = pytest.raises(WorldError, match="answered 404, but not as an environment server")
    with running(Starlette(routes=[Route("/v1/environment", page)])) as url, refused:
        await RemoteWorld.connect(url, options=HURRIED)


async def test_servers_with_different_tasks_are_refused():
    class OtherTasks(CorridorTasks):
        def task(self, split, index):
            return super().task(split, index + 1)

    refused = pytest.raises(WorldError, match="use servers of one version with the same options")
    with served() as one, served(OtherTasks()) as other, refused:
        await RemoteWorld.connect(one, other)


async def test_sessions_are_spread_over_servers_and_skip_full_ones():
    with served(capacity=1) as small, served(capacity=2) as large:
        async with RemoteWorld.connected(small, large, options=HURRIED) as remote:
            sessions = [remote.session() for _ in range(3)]
            for session in sessions:
                await session.reset(red_left_2())
            for session in sessions:
                assert (await session.step("left")).wellformed
            with pytest.raises(CapacityError):
                await remote.session().reset(red_left_2())
            for session in sessions:
                await session.close()


def test_blocking_task_set_needs_no_event_loop():
    with served(CorridorTasks(CorridorOptions(turns=9))) as url, BlockingTaskSet(url) as tasks:
        assert isinstance(tasks, TaskSet)
        environment = tasks.environment()
        assert environment.reset(red_left_2()).text.endswith("left 2")
        assert environment.step("left").observation.text.endswith("left 1")
        environment.close()


async def test_a_reset_that_is_cancelled_leaves_no_session_on_the_server():
    tasks = BlockingTasks(block_resets=True)
    with tasks.opened_on_exit(), served(tasks, capacity=1) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as world:
            task = await world.task("train", 0)
            reset = asyncio.create_task(world.session().reset(task))
            await asyncio.to_thread(tasks.waiting.wait)
            reset.cancel()
            await asyncio.sleep(0)
            tasks.gate.set()
            with pytest.raises(asyncio.CancelledError):
                await reset
            await world.session().reset(task)  # there is room for it
