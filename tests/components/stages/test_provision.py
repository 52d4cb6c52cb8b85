import asyncio
import json
from functools import partial

import pytest
from corridor_run import manifest
from corridor_server import served

from agentrl_components.errors import SpecError
from agentrl_components.exchange.heartbeat import announce
from agentrl_components.run.journal import Journal
from agentrl_components.stages.provision import check_actions, environment_fingerprints, provision
from agentrl_components.storage import keys
from agentrl_components.storage.memory import MemoryStore
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Split, Task, TaskSet
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import ContractError
from agentrl_envs.registry import task_set
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld


class NoWords(CorridorTasks):
    def vocabulary(self) -> tuple[str, ...] | None:
        return None


def test_a_tiny_model_is_refused_for_an_environment_that_lists_no_words():
    with pytest.raises(SpecError, match=r"vocabulary\(\) of environment corridor lists none"):
        asyncio.run(environment_fingerprints(manifest(), {"corridor": LocalWorld(NoWords())}))


def test_a_pretrained_model_needs_no_list_of_words():
    run = manifest(model={"source": "hf://a/b"})
    found = asyncio.run(environment_fingerprints(run, {"corridor": LocalWorld(NoWords())}))
    assert found.root["corridor"].admissible


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (("go up", "go down"), r"vocabulary\(\) lacks 'down' of the admissible action 'go down'"),
        (("go up", "go  up"), "actions 'go up' and 'go  up' are the same words"),
    ],
)
def test_actions_that_a_tiny_model_cannot_tell_apart_are_refused(actions, message):
    with pytest.raises(ContractError, match=f"environment lights: .*{message}"):
        check_actions("lights", actions, ("go", "up"))
    check_actions("lights", ("go up", "up"), ("go", "up"))


class Shifted(CorridorTasks):
    """The corridors of another version: each index has the task that was one further."""

    def task(self, split: Split, index: int) -> Task:
        return super().task(split, index + 1)


class Fewer(CorridorTasks):
    def size(self, split: Split) -> int | None:
        return 7


def start(store: MemoryStore, tasks: TaskSet, phase: int = 0) -> None:
    """`provision` of a start of the run, whose environment has `tasks`."""
    asyncio.run(provision(manifest(), {"corridor": LocalWorld(tasks)}, Journal(store), phase))


@pytest.fixture
def begun() -> MemoryStore:
    """The store of a run that began with `CorridorTasks` and has evaluated the random policy."""
    store = MemoryStore()
    start(store, CorridorTasks())
    store.put(keys.evaluation("random"), b"{}")
    return store


def test_a_run_is_not_resumed_with_other_tasks_of_an_environment(begun):
    before = dict(begun.objects)
    told = (
        r"^spec\.environments\[0\] \(corridor\): the hash of its first held-out tasks is "
        r'"\w{16}", not "\w{16}": memory: holds a run with other tasks, .*start a new run'
    )
    with pytest.raises(SpecError, match=told):
        start(begun, Shifted())
    assert begun.objects == before


def test_a_later_phase_is_refused_other_tasks_too(begun):
    with pytest.raises(SpecError, match=r"the number of its training tasks is 7, not \d+; the num"):
        start(begun, Fewer(), phase=1)
    start(begun, CorridorTasks(), phase=1)
    with pytest.raises(SpecError, match="other tasks"):
        start(begun, Shifted(), phase=2)


def test_heartbeats_of_an_earlier_attempt_are_deleted(begun):
    announce(begun, "update")
    start(begun, CorridorTasks(), phase=1)
    assert list(begun.list(keys.HEARTBEATS)) == []


def test_tasks_may_change_before_there_is_a_result():
    store = MemoryStore()
    start(store, Shifted())
    start(store, CorridorTasks())
    store.put(keys.checkpoint(0, keys.MANIFEST), b"{}")
    start(store, CorridorTasks())
    with pytest.raises(SpecError, match="other tasks"):
        start(store, Shifted())


def test_fields_that_the_recorded_fingerprint_does_not_have_are_not_compared(begun):
    """As that of an earlier version of AgentRL, or of a later one."""
    key = keys.phase(0, keys.FINGERPRINTS)
    fingerprints = json.loads(begun.get(key))
    del fingerprints["corridor"]["tasks"]
    fingerprints["corridor"]["vendor"] = "another"
    begun.replace(key, json.dumps(fingerprints).encode())
    start(begun, Shifted())
    with pytest.raises(SpecError, match="other tasks"):
        start(begun, CorridorTasks())


def test_the_same_tasks_may_come_from_a_server_or_from_worker_processes(begun):
    """`replicas` and `workers` may be changed, and servers may move."""
    run, journal = manifest(), Journal(begun)

    async def start_elsewhere(url: str) -> None:
        async with RemoteWorld.connected(url) as remote:
            await provision(run, {"corridor": remote}, journal)
        workers = ProcessWorld(partial(task_set, "corridor", {}), workers=1)
        try:
            await provision(run, {"corridor": workers}, journal)
        finally:
            await workers.close()

    with served() as url:
        asyncio.run(start_elsewhere(url))
