"""What no watch showed is found by asking."""

import pytest
from world import UID, World

from agentrl_operator.controller.watches import Relist
from agentrl_operator.errors import KubernetesError

SERVERS = "demo-6a1b2c3d-babyai"


def relist(world):
    return Relist(controller=world.controller, cluster=world.cluster)


async def test_a_run_that_no_watch_showed_is_known():
    world = World()
    await relist(world).runs()

    assert world.controller.runs() == {("kubeflow", "demo")}


async def test_a_run_that_went_unseen_is_forgotten():
    world = World()
    await world.look()
    del world.cluster.resources[world.key]
    await relist(world).runs()

    assert world.controller.runs() == frozenset()


async def test_nothing_is_forgotten_while_kubernetes_does_not_answer():
    world = World()
    await world.look()
    world.cluster.down = True
    with pytest.raises(KubernetesError):
        await relist(world).runs()

    assert world.controller.runs() == {("kubeflow", "demo")}


async def test_servers_that_were_there_before_the_operator_are_known():
    world = World()
    await world.look()
    world.restart()
    await relist(world).deployments()

    assert world.controller.servers() == {(UID, SERVERS)}


async def test_servers_that_went_unseen_are_made_again():
    world = World()
    await world.look(2)
    del world.cluster.children["Deployment", "kubeflow", SERVERS]
    await relist(world).deployments()
    await world.controller.reconcile(world.key)

    assert ("Deployment", "kubeflow", SERVERS) in world.cluster.children
