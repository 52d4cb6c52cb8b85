"""Environments over HTTP: episodes, places, and servers that cannot be used."""

import asyncio
import time

import pytest
from corridor_http import Watch
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
from agentrl_envs.server.executors import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_envs.world import LocalWorld, World


async def test_an_episode_over_http_is_the_episode_in_process():
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


async def test_sessions_that_ask_for_a_page_at_once_share_its_fetch():
    """Each asked for it: 64 sessions made the server deal the same 64 tasks up to 64 times."""

    class Counting(CorridorTasks):
        dealt = 0

        def size(self, split):
            return None

        def task(self, split, index):
            self.dealt += split == "train"
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
                dealt = await asyncio.gather(*asked)
                assert [task.id for task in dealt] == [
                    CorridorTasks().task("train", 64 * page + offset).id for offset in range(64)
                ]
            assert tasks.dealt <= 3 * 64 + 2  # and two slices on the way to the last page


async def test_a_page_that_could_not_be_fetched_is_fetched_again():
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


async def test_an_index_beyond_the_split_wraps_round():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            assert await remote.task("heldout", 23 * 7 + 3) == await remote.task("heldout", 3)


async def test_a_session_keeps_its_place_from_episode_to_episode():
    with served(capacity=1) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            session = remote.session()
            for _ in range(3):
                assert (await session.reset(red_left_2())).text.endswith("left 2")
                await session.step("left")
            await session.close()


async def test_sixty_four_clients_hear_their_own_answers_only():
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


async def test_a_full_server_is_waited_for():
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


async def test_a_server_that_stays_full_is_a_capacity_error_that_says_how_long_was_waited():
    with served(capacity=1) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            first = remote.session()
            await first.reset(red_left_2())
            with pytest.raises(CapacityError, match=r"all 1 sessions are in use; waited 0\.3 s"):
                await remote.session().reset(red_left_2())


async def test_a_session_that_ran_out_of_time_is_a_session_error_and_can_be_reset():
    watch = Watch()
    with served(ttl_s=0.2, clock=watch) as url:
        async with RemoteWorld.connected(url) as remote:
            session = remote.session()
            await session.reset(red_left_2())

            async def go_on():
                while True:  # the server looks every 0.05 s for what has run out of time
                    watch.now += 0.3
                    await asyncio.sleep(0.1)
                    await session.step("no action")

            with pytest.raises(SessionError, match="is not open"):
                await asyncio.wait_for(go_on(), 300)
            assert (await session.reset(red_left_2())).text.endswith("left 2")
            await session.close()


async def test_a_session_lost_by_its_environment_is_a_session_error():
    with served(FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))) as url:
        async with RemoteWorld.connected(url, options=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            with pytest.raises(SessionError, match="on purpose"):
                await session.step("left")
            with pytest.raises(SessionError, match="call reset first"):
                await session.step("left")


async def test_a_step_before_any_reset_is_a_session_error():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            with pytest.raises(SessionError, match="has no task"):
                await remote.session().step("left")


async def test_a_task_that_is_not_the_servers_is_a_task_error():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            with pytest.raises(TaskError, match=r"payload\.cells"):
                await remote.session().reset(Task(id="x-0", category="x", payload={}))


async def test_an_unreachable_server_is_a_session_error_that_names_the_url():
    with pytest.raises(SessionError, match=r"http://127\.0\.0\.1:9: .*cannot reach the server"):
        await RemoteWorld.connect("http://127.0.0.1:9", options=HURRIED)


async def test_what_is_not_a_url_is_told_so():
    with pytest.raises(WorldError, match="nonsense"):
        await RemoteWorld.connect("nonsense", options=HURRIED)


async def test_a_wrong_token_is_not_tried_again():
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


async def test_another_kind_of_server_is_told_from_an_environment_server():
    async def page(request: Request) -> Response:
        return PlainTextResponse("hello", status_code=404)

    told = pytest.raises(WorldError, match="answered 404, but not as an environment server")
    with running(Starlette(routes=[Route("/v1/environment", page)])) as url, told:
        await RemoteWorld.connect(url, options=HURRIED)


async def test_servers_of_different_tasks_are_not_taken_for_one_world():
    class Others(CorridorTasks):
        def task(self, split, index):
            return super().task(split, index + 1)

    told = pytest.raises(WorldError, match="use servers of one version with the same options")
    with served() as one, served(Others()) as other, told:
        await RemoteWorld.connect(one, other)


async def test_sessions_spread_over_servers_and_pass_over_the_full_one():
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


def test_a_remote_world_can_be_used_without_async():
    with served(CorridorTasks(CorridorOptions(turns=9))) as url, BlockingTaskSet(url) as tasks:
        assert isinstance(tasks, TaskSet)
        environment = tasks.environment()
        assert environment.reset(red_left_2()).text.endswith("left 2")
        assert environment.step("left").observation.text.endswith("left 1")
        environment.close()
