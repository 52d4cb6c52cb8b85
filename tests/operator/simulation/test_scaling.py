"""The number of environment servers follows the sessions in use."""

import pytest
from flaky import ERRORS, REFUSED
from world import UID, World

from agentrl_operator.manifests.autoscaling import METRIC

SCALING = {"maxReplicas": 4, "downAfterS": 120, "sessionsPerServer": 10}
NAME = "demo-6a1b2c3d-babyai"


def scaled_world(**scaling):
    scaling = SCALING | scaling
    return World(environments=[{"name": "babyai", "builtin": "babyai", "scaling": scaling}])


def set_loads(world, *sessions):
    world.cluster.fleet.pods = {
        f"babyai-{number}": None if count is None else ("babyai", count, 10)
        for number, count in enumerate(sessions)
    }


def replicas(world):
    return world.cluster.servers(UID)[NAME].wanted


async def after(world, seconds):
    """Reconcile every 20 seconds for this long."""
    for _ in range(seconds // 20):
        world.pass_time(20)
        await world.reconcile()


async def test_servers_are_added_while_sessions_are_open_and_removed_later():
    world = scaled_world()
    await world.reconcile(2)
    assert replicas(world) == 1
    set_loads(world, 10)
    await after(world, 20)
    assert replicas(world) == 2
    set_loads(world, 10, 10)
    await after(world, 20)
    assert replicas(world) == 3
    set_loads(world, 2, 0, 1)
    await after(world, 100)
    assert replicas(world) == 3
    await after(world, 60)
    assert replicas(world) == 1
    assert world.cluster.fleet.costs == {"babyai-0": 2, "babyai-1": 0, "babyai-2": 1}


async def test_ceiling_and_floor_hold():
    world = scaled_world(minReplicas=2)
    await world.reconcile(2)
    assert replicas(world) == 2
    set_loads(world, *[10] * 4)
    await after(world, 20)
    assert replicas(world) == 4
    set_loads(world, 0, 0, 0, 0)
    await after(world, 400)
    assert replicas(world) == 2


async def test_server_that_does_not_answer_counts_as_full():
    world = scaled_world()
    await world.reconcile(2)
    set_loads(world, 10, 10)
    await after(world, 20)
    set_loads(world, 0, None, None)
    await after(world, 400)
    assert replicas(world) == 3  # 20 of 30


async def test_update_of_the_deployment_keeps_the_number_of_servers():
    world = scaled_world()
    await world.reconcile(2)
    set_loads(world, 10, 10)
    await after(world, 20)
    assert replicas(world) == 3
    environment = {"name": "babyai", "builtin": "babyai", "scaling": SCALING, "cpu": "500m"}
    world.cluster.edit(world.key, environments=[environment])
    await world.reconcile()
    assert replicas(world) == 3


async def test_cluster_that_serves_the_metric_gets_an_autoscaler_which_scales_alone():
    world = scaled_world()
    world.cluster.fleet.metrics = {METRIC}
    await world.reconcile(2)
    set_loads(world, 10)
    await after(world, 100)
    key = ("HorizontalPodAutoscaler", "kubeflow", NAME)
    spec = world.cluster.children[key]["spec"]
    assert spec["scaleTargetRef"]["name"] == NAME
    assert spec["metrics"][0]["pods"]["target"]["averageValue"] == "700m"
    assert replicas(world) == 1  # nobody plays the autoscaler here

    world.cluster.edit(world.key, environments=[{"name": "babyai", "builtin": "babyai"}])
    world.failures["fleet", "delete_autoscaler"] = ERRORS["fleet"]
    await world.reconcile()
    assert key in world.cluster.children
    await world.reconcile()
    assert key not in world.cluster.children


async def test_an_autoscaler_goes_with_its_servers():
    world = scaled_world()
    world.cluster.fleet.metrics = {METRIC}
    await world.reconcile(3)
    await world.apply("suspend")
    await world.reconcile()
    world.stop_work()
    await world.reconcile(2)

    assert world.status["state"] == "Suspended"
    assert {kind for kind, _, _ in world.cluster.children} == {
        "PodDisruptionBudget",
        "Secret",
        "Service",
    }


async def test_one_server_at_a_time_may_be_evicted():
    world = scaled_world()
    await world.reconcile(2)
    budget = world.cluster.children["PodDisruptionBudget", "kubeflow", NAME]
    assert budget["spec"]["maxUnavailable"] == 1
    deployment = world.cluster.children["Deployment", "kubeflow", NAME]
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 315
    command = pod["containers"][0]["command"]
    assert command[-4:] == ["--drain", "300", "--capacity", "10"]


async def test_environment_without_scaling_has_neither_budget_nor_autoscaler():
    world = World()
    world.cluster.fleet.metrics = {METRIC}
    await world.reconcile(3)
    kinds = {kind for kind, _, _ in world.cluster.children}
    assert kinds == {"Deployment", "Secret", "Service"}


async def test_operator_scales_again_after_a_failed_call():
    world = scaled_world()
    await world.reconcile(2)
    set_loads(world, 10)
    world.failures["fleet", "ready_pods"] = ERRORS["fleet"]
    await after(world, 60)
    assert replicas(world) == 2


@pytest.mark.parametrize("error", [ERRORS["fleet"], REFUSED], ids=["down", "refused"])
async def test_a_run_goes_on_while_the_cluster_does_not_say_which_metrics_it_serves(error):
    world = scaled_world()
    await world.reconcile(2)
    world.broken["fleet", "serves_metric"] = error
    world.pass_time(61)
    world.finish_phase()
    await world.reconcile(3)
    assert world.status["phaseIndex"] == 1

    set_loads(world, 10)
    await after(world, 40)
    assert replicas(world) == 2


async def test_servers_that_somebody_restarted_are_not_changed_back():
    world = World()
    await world.reconcile(3)
    pod = world.cluster.children["Deployment", "kubeflow", NAME]["spec"]["template"]
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-11-21T12:00:00Z"}
    await after(world, 400)
    world.finish_phase()
    await after(world, 40)

    pod = world.cluster.children["Deployment", "kubeflow", NAME]["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in pod["metadata"]["annotations"]


@pytest.mark.parametrize("scaling", [None, SCALING])
async def test_servers_of_an_environment_that_moves_into_the_stages_go_with_its_phase(scaling):
    inside = {"name": "babyai", "builtin": "babyai", "replicas": 0}
    served = {"replicas": 3} if scaling is None else {"replicas": 1, "scaling": scaling}
    world = World(environments=[inside | served])
    world.cluster.fleet.metrics = {METRIC}
    await world.reconcile(3)
    assert len(world.kfp.working) == 1
    world.managed = False
    world.cluster.edit(world.key, environments=[inside])
    await after(world, 120)
    assert set(world.cluster.servers(UID)) == {NAME}, "the stages of this phase still use them"
    world.finish_phase()
    await world.reconcile(2)
    assert world.cluster.servers(UID) == {}
    assert not any(kind == "HorizontalPodAutoscaler" for kind, _, _ in world.cluster.children)
    assert len(world.kfp.submitted) == 2
    assert world.conditions()["EnvironmentsReady"] == ("True", "NoneServed")
