"""Runs whose manifest becomes invalid while they live, simulated in memory."""

import pytest
from flaky import REFUSED
from queued_world import PLATFORM, QueuedWorld
from test_ray import RayWorld
from world import UID, World

from agentrl_pipelines.platform.config import Kfp, Platform


async def at_work(world):
    await world.reconcile(3)
    assert len(world.kfp.working) == 1
    return world


async def invalidate(world):
    await world.apply("manifest invalid")
    await world.reconcile()
    assert world.conditions()["Accepted"] == ("False", "InvalidSpec")


async def test_a_phase_goes_on_and_its_end_removes_the_servers():
    world = await at_work(World())
    await invalidate(world)
    assert world.conditions()["Progressing"] == ("True", "InvalidSpec")
    assert "spec.seed" in world.status["message"]
    assert world.status["state"] == "Running"
    assert world.cluster.servers(UID)
    world.finish_phase()
    await world.reconcile(2)

    assert world.cluster.servers(UID) == {}
    assert world.status["state"] == "Pending"
    assert world.conditions()["Progressing"] == ("False", "InvalidSpec")
    assert world.conditions()["EnvironmentsReady"] == ("False", "ScaledDown")
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"
    assert world.status["failures"] == 0


async def test_time_without_work_does_not_count():
    world = await at_work(World(activeDeadlineSeconds=3000))
    await invalidate(world)
    world.finish_phase()
    await world.reconcile(2)
    world.pass_time(10_000)
    await world.reconcile()
    assert world.status["state"] == "Pending"
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_the_deadline_ends_the_run():
    world = await at_work(World(activeDeadlineSeconds=100))
    await invalidate(world)
    world.pass_time(101)
    await world.reconcile()
    world.stop_work()
    await world.reconcile(2)

    assert world.status["state"] == "Failed"
    assert world.conditions()["Failed"] == ("True", "DeadlineExceeded")
    assert world.cluster.servers(UID) == {}


async def test_a_failed_phase_is_not_tried_again_until_the_manifest_is_valid():
    world = await at_work(World())
    await invalidate(world)
    world.finish_phase("FAILED")
    await world.reconcile(2)
    assert (world.status["state"], len(world.kfp.submitted)) == ("Pending", 1)
    assert world.cluster.servers(UID) == {}
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_an_administrator_who_takes_a_store_away_ends_nothing_that_works():
    other = {"endpoint": "http://other.test", "secret": {"name": "other"}}
    keys = {"accessKeyEnv": "OTHER_KEY", "secretKeyEnv": "OTHER_SECRET"}
    platform = Platform(storage={"others": [other | keys]})
    storage = {"url": "s3://models/a", "endpoint": "http://other.test"}
    world = await at_work(World(platform, storage=storage))
    world.platform = Platform()
    world.restart()
    await world.reconcile(2)
    assert world.conditions()["Accepted"] == ("False", "InvalidSpec")
    assert len(world.kfp.working) == 1
    world.finish_phase()
    await world.reconcile(2)

    assert world.status["state"] == "Pending"
    assert world.cluster.servers(UID) == {}


async def test_a_ray_cluster_is_removed_after_the_phase():
    world = await at_work(RayWorld())
    await invalidate(world)
    assert len(world.rays) == 1
    world.finish_phase()
    await world.reconcile(3)
    assert world.rays == []


async def test_sandboxes_are_removed_after_the_phase():
    environment = {"name": "babyai", "builtin": "babyai", "backend": "sandbox"}
    world = await at_work(World(environments=[environment]))
    await invalidate(world)
    assert world.cluster.agent_sandbox.sandboxes()
    world.finish_phase()
    await world.reconcile(2)
    assert world.cluster.agent_sandbox.sandboxes() == []


async def test_a_queued_run_leaves_the_queue():
    world = QueuedWorld()
    await world.reconcile(2)
    assert world.workload is not None
    await invalidate(world)
    assert world.workload is None
    assert world.conditions()["Admitted"] == ("False", "InvalidSpec")
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_a_run_in_a_wrong_namespace_is_told_so_though_its_workloads_may_not_be_read():
    world = QueuedWorld()
    world.platform = PLATFORM.model_copy(update={"kfp": Kfp(namespace="pipelines")})
    world.restart()
    world.broken["kueue", "get_workload"] = REFUSED
    await world.reconcile(2)
    assert world.conditions()["Accepted"] == ("False", "InvalidSpec")
    assert "metadata.namespace" in world.status["message"]
    assert "create the run there" in world.status["message"]
    assert "InvalidSpec" in [reason for _, reason, _ in world.cluster.events]


async def test_a_workload_that_could_not_be_read_leaves_the_queue_later():
    world = QueuedWorld()
    await world.reconcile(2)
    world.broken["kueue", "get_workload"] = REFUSED
    await invalidate(world)
    assert world.workload is not None
    world.broken.clear()
    await world.reconcile()
    assert world.workload is None


async def test_a_phase_goes_on_though_its_workload_may_not_be_read_any_more():
    world = QueuedWorld()
    await world.reconcile(2)
    world.kueue.admit()
    await at_work(world)
    world.broken["kueue", "get_workload"] = REFUSED
    await world.apply("manifest invalid")
    await world.reconcile(4)
    assert (len(world.kfp.working), len(world.cluster.servers(UID))) == (1, 1)


async def test_the_quota_is_released_after_the_phase():
    world = QueuedWorld()
    await world.reconcile(2)
    world.kueue.admit()
    await at_work(world)
    await invalidate(world)
    assert world.holds("Admitted")
    world.finish_phase()
    await world.reconcile(3)

    assert (world.workload, world.cluster.servers(UID)) == (None, {})
    assert world.status["state"] == "Pending"


@pytest.mark.parametrize("works", [False, True])
async def test_a_deletion_says_that_the_data_is_kept(works):
    world = World(storage={"onDelete": "delete"})
    if works:
        await at_work(world)
    await world.reconcile()
    await invalidate(world)
    await world.delete_and_wait()

    assert world.key not in world.cluster.resources
    (told,) = [message for _, reason, message in world.cluster.events if reason == "DataKept"]
    assert told.startswith("spec.storage.onDelete: the data is kept, as the manifest is not accept")
    assert "spec.seed" in told
