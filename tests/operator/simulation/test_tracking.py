"""Runs whose MLflow server changes while they live, simulated in memory."""

import pytest
from world import STORE, World

from agentrl_pipelines.platform.config import Platform

OLD, NEW, UNLISTED = "http://old.test", "http://new.test", "http://unlisted.test"
PLATFORM = Platform(tracking={"uri": OLD, "others": [NEW]})


async def edited(new=NEW):
    """A run whose `tracking.uri` was edited during its first phase."""
    world = World(PLATFORM)
    await world.reconcile(3)
    assert shown(world) == ("mlflow-0", f"{OLD}/#/runs/mlflow-0")
    world.cluster.edit(world.key, tracking={"uri": new})
    await world.reconcile(2)
    assert shown(world) == ("mlflow-0", f"{OLD}/#/runs/mlflow-0"), "a dead link"
    return world


def shown(world):
    return world.status["mlflowRun"], world.status["mlflowUrl"]


def record(world, run_id, uri):
    """What a stage does that finds no MLflow run on its server."""
    data = world.stores.run(STORE)
    data.mlflow_run, data.mlflow_uri = run_id, uri


async def test_the_status_names_the_run_on_the_new_server_once_there_is_one():
    world = await edited()
    world.finish_phase()
    await world.reconcile(2)
    record(world, "new-0", NEW)
    await world.reconcile()
    assert shown(world) == ("new-0", f"{NEW}/#/runs/new-0")
    await world.run_to_end()
    assert world.tracking.finished_on == {"new-0": NEW}


async def test_a_run_that_ends_before_is_finished_on_its_old_server():
    world = await edited()
    await world.run_to_end()
    assert world.tracking.finished_on == {"mlflow-0": OLD}


@pytest.mark.parametrize("ends", ["deleted", "succeeded"])
async def test_nothing_is_sent_to_a_server_that_is_not_listed(ends):
    world = await edited(UNLISTED)
    record(world, "new-0", UNLISTED)
    await world.reconcile()
    assert shown(world) == ("new-0", f"{UNLISTED}/#/runs/new-0")
    await (world.delete_and_wait() if ends == "deleted" else world.run_to_end())
    assert world.tracking.finished_on == {}


async def test_a_record_without_a_server_counts_once_its_run_is_another():
    """As stages of an earlier version wrote it."""
    world = await edited()
    record(world, "mlflow-0", None)
    await world.reconcile()
    assert shown(world) == ("mlflow-0", f"{OLD}/#/runs/mlflow-0")
    record(world, "new-0", None)
    await world.reconcile()
    assert shown(world) == ("new-0", f"{NEW}/#/runs/new-0")
