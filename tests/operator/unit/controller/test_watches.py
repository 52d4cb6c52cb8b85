"""Relists find what no watch showed."""

import kopf
import pytest
from world import UID, World

from agentrl_operator.controller import watches
from agentrl_operator.controller.watches import Relist, pass_deployment, read_servers
from agentrl_operator.errors import KubernetesError

SERVERS = "demo-6a1b2c3d-babyai"


def relist(world):
    return Relist(controller=world.controller, cluster=world.cluster)


async def test_a_relist_adds_a_run_that_no_watch_showed():
    world = World()
    await relist(world).runs()

    assert world.controller.runs() == {UID}


async def test_a_relist_drops_a_run_that_no_longer_exists():
    world = World()
    await world.reconcile()
    del world.cluster.resources[world.key]
    await relist(world).runs()

    assert world.controller.runs() == set()


async def test_a_failed_relist_drops_nothing():
    world = World()
    await world.reconcile()
    world.cluster.down = True
    with pytest.raises(KubernetesError):
        await relist(world).runs()

    assert world.controller.runs() == {UID}


async def test_a_relist_adds_existing_deployments():
    world = World()
    await world.reconcile()
    world.restart()
    await relist(world).deployments()

    assert world.controller.servers() == {(UID, SERVERS)}


async def test_a_deployment_that_a_relist_misses_is_created_again():
    world = World()
    await world.reconcile(2)
    del world.cluster.children["Deployment", "kubeflow", SERVERS]
    await relist(world).deployments()
    await world.controller.reconcile(world.key)

    assert ("Deployment", "kubeflow", SERVERS) in world.cluster.children


async def test_why_a_deployment_cannot_create_its_pods_is_shown():
    world = World()
    await world.reconcile(2)
    body = world.cluster.children["Deployment", "kubeflow", SERVERS]
    refusal = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": f'pods "{SERVERS}-5d4-" is forbidden: exceeded quota: compute',
    }
    pass_deployment(world.controller, body | {"status": {"conditions": [refusal]}})
    await world.controller.reconcile(world.key)

    (shown,) = (one for one in world.status["conditions"] if one["type"] == "EnvironmentsReady")
    assert (shown["status"], shown["reason"]) == ("False", "Starting")
    assert shown["message"] == (
        "babyai: 0 of 1 servers are ready; FailedCreate: "
        f'pods "{SERVERS}-5d4-" is forbidden: exceeded quota: compute'
    )


@pytest.mark.parametrize(
    ("generation", "counts", "outdated", "settled"),
    [
        (2, {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 3}, 3, False),
        (2, {"replicas": 1, "readyReplicas": 1}, 1, False),  # no pod of the new template yet
        (2, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 2}, 0, True),
        (3, {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3}, 0, False),
        (2, {}, 0, True),  # no pod at all
    ],
)
def test_pods_of_an_earlier_template_are_counted(generation, counts, outdated, settled):
    servers = read_servers(
        {
            "metadata": {"name": SERVERS, "generation": generation},
            "spec": {"replicas": 3},
            "status": {"observedGeneration": 2, **counts},
        }
    )
    assert (servers.outdated, servers.settled) == (outdated, settled)


async def test_only_watches_count_as_events_and_not_what_a_relist_finds():
    world = World()

    def event_age():
        registry = world.controller.metrics.registry
        return registry.get_sample_value("agentrl_operator_last_event_age_seconds")

    world.pass_time(100)
    await relist(world).runs()
    await relist(world).deployments()
    del world.cluster.resources[world.key]
    await relist(world).runs()
    assert event_age() == 100

    async def stop():
        pass

    handlers = watches.handlers(world.controller, workloads=True, stop=stop)
    shown = kopf.Body({"metadata": {"uid": UID, "name": "a", "labels": {}}, "spec": {}})
    ages = []
    for handler in handlers._watching.get_all_handlers():
        world.pass_time(100)
        await handler.fn(event={"type": "DELETED", "object": shown}, body=shown)
        ages.append(event_age())
    assert ages == [0, 0, 0]
