"""Hindsight relabeling over HTTP."""

import asyncio

import pytest
from corridor_server import served

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Relabels
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import TaskError
from agentrl_envs.world import LocalWorld


class RelabelingTasks(CorridorTasks):
    """Corridor tasks with hindsight relabeling."""

    def relabel(self, observation: str, goal: str, /) -> str:
        if not observation.startswith("corridor"):
            raise TaskError(f"observation: {observation!r} is not a first one")
        return f"{observation} ; {goal}"


async def test_relabel_over_http_equals_relabel_in_process():
    openings = [(f"corridor {n}", f"reach {n}") for n in range(150)]
    with served(RelabelingTasks()) as url:
        async with RemoteWorld.connected(url) as remote:
            local = LocalWorld(RelabelingTasks())
            assert remote.relabels
            assert local.relabels
            there = await remote.relabel(openings)
            assert there == await local.relabel(openings)
            assert there[149] == "corridor 149 ; reach 149"
            with pytest.raises(TaskError, match=r"openings\.1: observation: 'x' is not"):
                await remote.relabel([("corridor", "a"), ("x", "b")])


async def test_relabel_without_support_raises_task_error():
    with served() as url:
        async with RemoteWorld.connected(url) as remote:
            for world in (remote, LocalWorld(CorridorTasks())):
                assert not world.relabels
                with pytest.raises(TaskError, match="support relabeling"):
                    await world.relabel([("corridor", "a")])


async def test_blocking_task_set_supports_relabel_if_its_server_does():
    def play() -> list[bool]:
        found = []
        for tasks in (RelabelingTasks(), CorridorTasks()):
            with served(tasks) as url, BlockingTaskSet(url) as remote:
                found.append(isinstance(remote, Relabels))
                if isinstance(remote, Relabels):
                    assert remote.relabel("corridor", "a") == "corridor ; a"
        return found

    assert await asyncio.to_thread(play) == [True, False]
