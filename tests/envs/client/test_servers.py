"""Discovery of servers whose addresses change."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest
from corridor_server import HURRIED, PATIENT, red_left_2, served, served_for_a_time

from agentrl_envs.client.remote_world import RemoteSession, RemoteWorld
from agentrl_envs.env import Observation
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import CapacityError, SessionError, UnreachableError, WorldError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


class RelabelingTasks(CorridorTasks):
    """Corridor tasks with hindsight relabeling."""

    def relabel(self, observation: str, goal: str, /) -> str:
        return f"{observation} ; {goal}"


class OtherTasks(CorridorTasks):
    """Corridor tasks in another order."""

    def task(self, split, index):
        return super().task(split, index + 1)


class FakeDiscovery:
    """Returns the addresses in `urls`, which a test can change, and records its calls."""

    def __init__(self, *urls: str, latency_s: float = 0.0) -> None:
        self.urls = list(urls)
        self.latency_s = latency_s
        self.calls: list[float] = []
        """Start times."""
        self.concurrent = 0
        self.most_concurrent = 0

    async def __call__(self) -> Sequence[str]:
        self.calls.append(time.monotonic())
        self.concurrent += 1
        self.most_concurrent = max(self.most_concurrent, self.concurrent)
        await asyncio.sleep(self.latency_s)
        self.concurrent -= 1
        if not self.urls:
            raise SessionError("worlds has no address")
        return tuple(self.urls)


@asynccontextmanager
async def sessions_of(remote: RemoteWorld, count: int) -> AsyncIterator[list[RemoteSession]]:
    """Sessions that were reset concurrently, closed on exit."""
    sessions = [remote.session() for _ in range(count)]
    await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
    try:
        yield sessions
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


async def reset_with_retries(session: RemoteSession) -> Observation:
    """Reset; repeat on timeouts, which a busy machine can cause."""
    async with asyncio.timeout(300):
        while True:
            with suppress(UnreachableError):
                return await session.reset(red_left_2())


async def test_discovery_runs_once_while_all_servers_respond():
    with served() as one, served() as other:
        discovery = FakeDiscovery(one, other)
        async with RemoteWorld.connected(discovery=discovery, options=PATIENT) as remote:
            async with sessions_of(remote, 8) as sessions:
                for index in range(4):
                    task = await remote.task("train", 70 * index)
                    await asyncio.gather(*(session.reset(task) for session in sessions))
                    await asyncio.gather(*(session.step("left") for session in sessions))
                    await asyncio.sleep(0.06)
            assert len(discovery.calls) == 1


async def test_server_that_restarts_at_another_address_is_discovered():
    with ExitStack() as first:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time()))
        async with RemoteWorld.connected(discovery=discovery, options=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            first.close()
            with served() as later:
                discovery.urls = [later]
                with pytest.raises(SessionError, match="cannot reach the server"):
                    await session.step("left")
                assert (await reset_with_retries(session)).text.endswith("left 2")
                assert (await session.step("left")).observation.text.endswith("left 1")
                await session.close()


async def test_reset_waits_until_a_server_is_discovered():
    with ExitStack() as first:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time()))
        async with RemoteWorld.connected(discovery=discovery, options=PATIENT) as remote:
            first.close()
            discovery.urls = []
            opening = asyncio.create_task(remote.session().reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not opening.done()
            with served() as later:
                discovery.urls = [later]
                assert (await opening).text.endswith("left 2")


async def test_unreachable_error_gives_the_reason_of_failed_discovery():
    with ExitStack() as first:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time()))
        async with RemoteWorld.connected(discovery=discovery, options=HURRIED) as remote:
            first.close()
            discovery.urls = []
            with pytest.raises(UnreachableError):
                await remote.task("train", 0)
            with pytest.raises(UnreachableError, match="worlds has no address"):
                await remote.task("train", 0)


async def test_tasks_and_relabeling_use_another_server_after_the_first_stops():
    with ExitStack() as first, served(RelabelingTasks()) as other:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time(RelabelingTasks())), other)
        async with RemoteWorld.connected(discovery=discovery, options=PATIENT) as remote:
            first.close()
            assert await remote.task("train", 0) == CorridorTasks().task("train", 0)
            assert await remote.relabel([("corridor", "a")]) == ["corridor ; a"]
            assert (await remote.session().reset(red_left_2())).text.endswith("left 2")


async def test_replacement_server_restores_lost_capacity():
    with ExitStack() as first, served(capacity=2) as other:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time(capacity=2)), other)
        options = replace(PATIENT, retry_s=0.3)
        async with (
            RemoteWorld.connected(discovery=discovery, options=options) as remote,
            sessions_of(remote, 4) as sessions,
        ):
            first.close()
            discovery.urls = [other]
            results = await asyncio.gather(
                *(session.step("left") for session in sessions), return_exceptions=True
            )
            lost = [
                session
                for session, result in zip(sessions, results, strict=True)
                if isinstance(result, SessionError)
            ]
            assert len(lost) == 2
            with served(capacity=2) as later:
                discovery.urls = [other, later]
                await asyncio.gather(*(session.reset(red_left_2()) for session in lost))
                steps = await asyncio.gather(*(session.step("left") for session in sessions))
                assert [step.wellformed for step in steps] == [True] * 4


async def test_new_server_is_discovered_when_all_others_are_full():
    with served(capacity=1) as small, served(capacity=1) as more:
        discovery = FakeDiscovery(small)
        async with RemoteWorld.connected(discovery=discovery, options=PATIENT) as remote:
            discovery.urls = [small, more]
            async with sessions_of(remote, 2) as sessions:
                for session in sessions:
                    assert (await session.step("left")).wellformed


async def test_discovered_server_with_other_tasks_raises_world_error_with_its_url():
    with ExitStack() as first, served(OtherTasks()) as other:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time()))
        async with RemoteWorld.connected(discovery=discovery, options=PATIENT) as remote:
            first.close()
            discovery.urls = [other]
            with pytest.raises(WorldError, match="use servers of one version") as caught:
                await remote.session().reset(red_left_2())
            assert str(caught.value).startswith(f"url: {other} serves corridor ")
            assert not isinstance(caught.value, SessionError)


async def test_server_removed_from_discovery_keeps_its_sessions_and_gets_no_new_ones():
    with served(capacity=1) as leaving, served(capacity=1) as staying:
        discovery = FakeDiscovery(leaving, staying)
        async with RemoteWorld.connected(discovery=discovery, options=HURRIED) as remote:
            kept, other = remote.session(), remote.session()
            await kept.reset(red_left_2())
            await other.reset(red_left_2())
            discovery.urls = [staying]
            await asyncio.sleep(0.06)
            with pytest.raises(CapacityError):  # discovery runs while it waits
                await remote.session().reset(red_left_2())
            await asyncio.sleep(0.06)
            assert (await kept.step("left")).observation.text.endswith("left 1")
            await kept.close()
            with pytest.raises(CapacityError, match=staying):
                await remote.session().reset(red_left_2())
            await other.close()


async def test_concurrent_resets_share_discovery_and_its_rate_is_limited():
    with ExitStack() as first:
        discovery = FakeDiscovery(first.enter_context(served_for_a_time()), latency_s=0.02)
        options = replace(HURRIED, retry_s=0.4, discovery_s=0.1)
        async with RemoteWorld.connected(discovery=discovery, options=options) as remote:
            first.close()
            while len(discovery.calls) < 3:
                before = len(discovery.calls)
                results = await asyncio.gather(
                    *(remote.session().reset(red_left_2()) for _ in range(20)),
                    return_exceptions=True,
                )
                assert {type(result) for result in results} == {UnreachableError}
                assert len(discovery.calls) - before <= 5
        gaps = [
            later - sooner
            for sooner, later in zip(discovery.calls, discovery.calls[1:], strict=False)
        ]
        assert discovery.most_concurrent == 1
        assert min(gaps) >= 0.1


async def test_draining_server_keeps_its_session_and_gets_no_other():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(drain_s=300))
    with running(app) as leaving, served() as staying:
        async with RemoteWorld.connected(leaving, staying, options=PATIENT) as remote:
            async with sessions_of(remote, 2) as sessions:
                held = [session for session in sessions if session._member.server.url == leaving]
                app.state.draining.begin()
                async with sessions_of(remote, 3) as others:
                    urls = [session._member.server.url for session in others]
                    assert urls == [staying] * 3
                for session in held:
                    await session.step("left")
            assert app.state.draining.over


@pytest.mark.parametrize("others", [0, 1])
async def test_sessions_that_cannot_go_on_at_a_draining_server_leave_their_places(others):
    """Regression: a reset that did not call the old server left the session there until it expired,
    after 300 s."""
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(drain_s=300))
    with running(app) as leaving, ExitStack() as stack:
        discovery = FakeDiscovery(leaving)
        async with RemoteWorld.connected(discovery=discovery, options=HURRIED) as remote:
            first, second = remote.session(), remote.session()
            await first.reset(red_left_2())
            await second.reset(red_left_2())
            app.state.draining.begin()
            discovery.urls = [stack.enter_context(served()) for _ in range(others)]
            for session in (first, second):  # the second knows that the server is not usable
                if others:
                    assert (await reset_with_retries(session)).text.endswith("left 2")
                else:
                    with pytest.raises(UnreachableError):
                        await session.reset(red_left_2())
            async with asyncio.timeout(60):
                while not app.state.draining.over:
                    await asyncio.sleep(0.01)
            for session in (first, second):
                await session.close()
