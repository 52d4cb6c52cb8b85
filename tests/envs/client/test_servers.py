"""Servers that come and go at other addresses."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest
from corridor_server import HURRIED, PATIENT, red_left_2, served

from agentrl_envs.client.remote_world import RemoteSession, RemoteWorld
from agentrl_envs.env import Observation
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import CapacityError, SessionError, UnreachableError, WorldError


class Rewriting(CorridorTasks):
    """A corridor whose goals can be rewritten."""

    def relabel(self, observation: str, goal: str, /) -> str:
        return f"{observation} ; {goal}"


class Others(CorridorTasks):
    """A corridor of other tasks."""

    def task(self, split, index):
        return super().task(split, index + 1)


class Roll:
    """The addresses there are: a test changes them, and counts how often somebody looks."""

    def __init__(self, *urls: str, takes_s: float = 0.0) -> None:
        self.urls = list(urls)
        self.takes_s = takes_s
        self.looks: list[float] = []
        """When each began."""
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self) -> Sequence[str]:
        self.looks.append(time.monotonic())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.takes_s)
        self.at_once -= 1
        if not self.urls:
            raise SessionError("worlds has no address")
        return tuple(self.urls)


@asynccontextmanager
async def sessions_of(remote: RemoteWorld, count: int) -> AsyncIterator[list[RemoteSession]]:
    """Sessions, all set up at once."""
    sessions = [remote.session() for _ in range(count)]
    await asyncio.gather(*(session.reset(red_left_2()) for session in sessions))
    try:
        yield sessions
    finally:
        await asyncio.gather(*(session.close() for session in sessions))


async def reset_at_last(session: RemoteSession) -> Observation:
    """However often its patience ends before the machine gets to it."""
    async with asyncio.timeout(300):
        while True:
            with suppress(UnreachableError):
                return await session.reset(red_left_2())


async def test_nobody_looks_for_servers_while_all_is_well():
    with served() as one, served() as other:
        roll = Roll(one, other)
        async with RemoteWorld.connected(discovery=roll, options=PATIENT) as remote:
            async with sessions_of(remote, 8) as sessions:
                for index in range(4):
                    task = await remote.task("train", 70 * index)
                    await asyncio.gather(*(session.reset(task) for session in sessions))
                    await asyncio.gather(*(session.step("left") for session in sessions))
                    await asyncio.sleep(0.06)
            assert len(roll.looks) == 1


async def test_a_server_that_comes_back_at_another_address_is_found_and_used():
    with ExitStack() as first:
        roll = Roll(first.enter_context(served()))
        async with RemoteWorld.connected(discovery=roll, options=HURRIED) as remote:
            session = remote.session()
            await session.reset(red_left_2())
            first.close()
            with served() as later:
                roll.urls = [later]
                with pytest.raises(SessionError, match="cannot reach the server"):
                    await session.step("left")
                assert (await reset_at_last(session)).text.endswith("left 2")
                assert (await session.step("left")).observation.text.endswith("left 1")
                await session.close()


async def test_a_server_that_is_away_is_waited_for_where_it_was_not_found_yet():
    with ExitStack() as first:
        roll = Roll(first.enter_context(served()))
        async with RemoteWorld.connected(discovery=roll, options=PATIENT) as remote:
            first.close()
            roll.urls = []
            opening = asyncio.create_task(remote.session().reset(red_left_2()))
            await asyncio.sleep(0.2)
            assert not opening.done()
            with served() as later:
                roll.urls = [later]
                assert (await opening).text.endswith("left 2")


async def test_servers_that_stay_away_are_a_session_error_that_says_why():
    with ExitStack() as first:
        roll = Roll(first.enter_context(served()))
        async with RemoteWorld.connected(discovery=roll, options=HURRIED) as remote:
            first.close()
            roll.urls = []
            with pytest.raises(UnreachableError):
                await remote.task("train", 0)
            with pytest.raises(UnreachableError, match="worlds has no address"):
                await remote.task("train", 0)


async def test_tasks_and_goals_go_on_when_the_first_server_is_gone():
    with ExitStack() as first, served(Rewriting()) as other:
        roll = Roll(first.enter_context(served(Rewriting())), other)
        async with RemoteWorld.connected(discovery=roll, options=PATIENT) as remote:
            first.close()
            assert await remote.task("train", 0) == CorridorTasks().task("train", 0)
            assert await remote.relabel([("corridor", "a")]) == ["corridor ; a"]
            assert (await remote.session().reset(red_left_2())).text.endswith("left 2")


async def test_lost_capacity_comes_back_with_the_server_that_takes_its_place():
    with ExitStack() as first, served(capacity=2) as other:
        roll = Roll(first.enter_context(served(capacity=2)), other)
        options = replace(PATIENT, retry_s=0.3)
        async with (
            RemoteWorld.connected(discovery=roll, options=options) as remote,
            sessions_of(remote, 4) as sessions,
        ):
            first.close()
            roll.urls = [other]
            fell = await asyncio.gather(
                *(session.step("left") for session in sessions), return_exceptions=True
            )
            lost = [
                session
                for session, each in zip(sessions, fell, strict=True)
                if isinstance(each, SessionError)
            ]
            assert len(lost) == 2
            with served(capacity=2) as later:
                roll.urls = [other, later]
                await asyncio.gather(*(session.reset(red_left_2()) for session in lost))
                steps = await asyncio.gather(*(session.step("left") for session in sessions))
                assert [step.wellformed for step in steps] == [True] * 4


async def test_a_new_server_is_noticed_when_all_are_full():
    with served(capacity=1) as small, served(capacity=1) as more:
        roll = Roll(small)
        async with RemoteWorld.connected(discovery=roll, options=PATIENT) as remote:
            roll.urls = [small, more]
            async with sessions_of(remote, 2) as sessions:
                for session in sessions:
                    assert (await session.step("left")).wellformed


async def test_a_new_server_of_other_tasks_is_refused_by_name():
    with ExitStack() as first, served(Others()) as other:
        roll = Roll(first.enter_context(served()))
        async with RemoteWorld.connected(discovery=roll, options=PATIENT) as remote:
            first.close()
            roll.urls = [other]
            with pytest.raises(WorldError, match="use servers of one version") as caught:
                await remote.session().reset(red_left_2())
            assert str(caught.value).startswith(f"url: {other} serves corridor ")
            assert not isinstance(caught.value, SessionError)


async def test_a_server_whose_address_is_gone_keeps_its_sessions_and_takes_no_new_ones():
    with served(capacity=1) as leaving, served(capacity=1) as staying:
        roll = Roll(leaving, staying)
        async with RemoteWorld.connected(discovery=roll, options=HURRIED) as remote:
            kept, other = remote.session(), remote.session()
            await kept.reset(red_left_2())
            await other.reset(red_left_2())
            roll.urls = [staying]
            await asyncio.sleep(0.06)
            with pytest.raises(CapacityError):  # while it waits, it looks
                await remote.session().reset(red_left_2())
            await asyncio.sleep(0.06)
            assert (await kept.step("left")).observation.text.endswith("left 1")
            await kept.close()
            with pytest.raises(CapacityError, match=staying):
                await remote.session().reset(red_left_2())
            await other.close()


async def test_one_looks_for_all_and_not_all_the_time():
    with ExitStack() as first:
        roll = Roll(first.enter_context(served()), takes_s=0.02)
        options = replace(HURRIED, retry_s=0.4, discovery_s=0.1)
        async with RemoteWorld.connected(discovery=roll, options=options) as remote:
            first.close()
            while len(roll.looks) < 3:
                before = len(roll.looks)
                fell = await asyncio.gather(
                    *(remote.session().reset(red_left_2()) for _ in range(20)),
                    return_exceptions=True,
                )
                assert {type(each) for each in fell} == {UnreachableError}
                assert len(roll.looks) - before <= 5
        gaps = [later - sooner for sooner, later in zip(roll.looks, roll.looks[1:], strict=False)]
        assert roll.most_at_once == 1
        assert min(gaps) >= 0.1
