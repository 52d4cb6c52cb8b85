"""Goals that are rewritten over HTTP."""

import asyncio

import pytest
from corridor_server import served

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Relabels
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import TaskError
from agentrl_envs.world import LocalWorld


class Rewriting(CorridorTasks):
    """A corridor whose goals can be rewritten."""

    def relabel(self, observation: str, goal: str, /) -> str:
        if not observation.startswith("corridor"):
            raise TaskError(f"observation: {observation!r} is not a first one")
        return f"{observation} ; {goal}"


async def test_goals_are_rewritten_over_http_as_in_process():
    openings = [(f"corridor {n}", f"reach {n}") for n in range(150)]
    with served(Rewriting()) as url:
        async with RemoteWorld.connected(url) as remote:
            local = LocalWorld(Rewriting())
            assert remote.relabels
            assert local.relabels
            there = await remote.relabel(openings)
            assert there == await local.relabel(openings)
            assert there[149] == "corridor 149 ; reach 149"
            with pytest.raises(TaskError, match=r"openings\.1: observation: 'x' is not"):
                await remote.relabel([("corridor", "a"), ("x", "b")])


async def test_a_world_that_rewrites_no_goals_says_so():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            for world in (remote, LocalWorld(CorridorTasks())):
                assert not world.relabels
                with pytest.raises(TaskError, match="support relabeling"):
                    await world.relabel([("corridor", "a")])


async def test_a_blocking_task_set_rewrites_goals_where_its_server_does():
    def play() -> list[bool]:
        found = []
        for tasks in (Rewriting(), CorridorTasks()):
            with served(tasks) as url, BlockingTaskSet(url) as remote:
                found.append(isinstance(remote, Relabels))
                if isinstance(remote, Relabels):
                    assert remote.relabel("corridor", "a") == "corridor ; a"
        return found

    assert await asyncio.to_thread(play) == [True, False]
