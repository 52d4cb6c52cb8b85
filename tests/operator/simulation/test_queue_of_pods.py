"""Runs whose pods Kueue admits one by one: environment servers move to another queue."""

import pytest
from world import UID, World

from agentrl_pipelines.labels import PRIORITY_LABEL, QUEUE_LABEL

BABYAI = {"name": "babyai", "builtin": "babyai"}
NAME = "demo-6a1b2c3d-babyai"


async def at_work(**spec):
    world = World(**({"environments": [BABYAI]} | spec))
    await world.reconcile(3)
    assert len(world.kfp.working) == 1
    return world


def labels(world):
    return world.cluster.children["Deployment", "kubeflow", NAME]["metadata"]["labels"]


async def to_the_next_phase(world):
    world.finish_phase()
    await world.reconcile(4)
    assert len(world.kfp.submitted) == 2


@pytest.mark.parametrize("edited", [{"queue": "b"}, {}])
async def test_servers_keep_their_queue_while_a_phase_works_and_move_after_it(edited):
    world = await at_work(compute={"queue": "a"})
    before = str(world.cluster.children["Deployment", "kubeflow", NAME])
    world.cluster.edit(world.key, compute=edited)
    for _ in range(10):
        world.pass_time(60)
        await world.reconcile()
    assert str(world.cluster.children["Deployment", "kubeflow", NAME]) == before
    assert world.conditions()["Progressing"] == ("True", "Running")
    await to_the_next_phase(world)
    assert labels(world).get(QUEUE_LABEL) == edited.get("queue")
    assert world.cluster.deleted_deployments == [NAME]


async def test_servers_enter_a_queue_that_a_run_names_after_its_start():
    world = await at_work()
    world.cluster.edit(world.key, compute={"queue": "b"})
    await to_the_next_phase(world)
    assert labels(world)[QUEUE_LABEL] == "b"


async def test_servers_get_a_priority_that_a_run_names_after_its_start():
    world = await at_work(compute={"queue": "a"})
    world.cluster.label(world.key, **{PRIORITY_LABEL: "urgent"})
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "Running")
    assert PRIORITY_LABEL not in labels(world)
    await to_the_next_phase(world)
    assert labels(world)[PRIORITY_LABEL] == "urgent"
    world.cluster.label(world.key, **{PRIORITY_LABEL: "calm"})
    world.finish_phase()
    await world.reconcile(3)
    assert labels(world)[PRIORITY_LABEL] == "calm"
    assert world.cluster.deleted_deployments == [NAME]


async def test_servers_are_added_and_otherwise_kept_in_a_phase_whose_queue_was_edited():
    world = await at_work(compute={"queue": "a"})
    world.cluster.edit(world.key, compute={"queue": "b"})
    world.cluster.edit(world.key, environments=[BABYAI | {"replicas": 3, "cpu": "2"}])
    await world.reconcile(2)
    assert world.cluster.servers(UID)[NAME].wanted == 3
    assert labels(world)[QUEUE_LABEL] == "a"
    assert world.cluster.deleted_deployments == []
    await to_the_next_phase(world)
    deployment = world.cluster.children["Deployment", "kubeflow", NAME]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "2"


async def test_scaled_servers_move_with_their_autoscaler():
    scaled = BABYAI | {"scaling": {"minReplicas": 2, "maxReplicas": 4}}
    world = World(environments=[scaled], compute={"queue": "a"})
    world.cluster.fleet.metrics = {"agentrl_env_sessions_share"}
    await world.reconcile(4)
    world.cluster.edit(world.key, compute={"queue": "b"})
    await to_the_next_phase(world)
    assert labels(world)[QUEUE_LABEL] == "b"
    assert ("HorizontalPodAutoscaler", "kubeflow", NAME) in world.cluster.children
