"""The platform configuration changes while runs are at work, as by an upgrade of the operator."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sandboxes import CODE, PLAIN, SANDBOX_EVENTS, SandboxWorld
from world import EVENTS, PLATFORM, UID, World

from agentrl_operator.clients.pods import Pod
from agentrl_operator.manifests.labels import FINGERPRINT

NEW = PLATFORM.model_copy(
    update={"images": PLATFORM.images.model_copy(update={"environment": "registry.test/envs:2"})}
)
BABYAI = {"name": "babyai", "builtin": "babyai"}
NAME = "demo-6a1b2c3d-babyai"


def upgrade(world):
    world.platform = NEW
    world.restart()


def deployment(world):
    return world.cluster.children["Deployment", "kubeflow", NAME]


def container(world):
    (found,) = deployment(world)["spec"]["template"]["spec"]["containers"]
    return found


def forget_what_the_run_determines(world):
    """Turn the fingerprints of all servers into those of an earlier operator."""
    for (kind, _, _), made in world.cluster.children.items():
        if kind in ("Deployment", "Sandbox"):
            annotations = made["metadata"]["annotations"]
            annotations[FINGERPRINT] = annotations[FINGERPRINT].rpartition(".")[2]


async def at_work(world=None):
    world = world or World(environments=[BABYAI])
    await world.reconcile(3)
    assert len(world.kfp.working) == 1
    return world


@pytest.mark.parametrize("earlier", [False, True])
async def test_servers_are_replaced_by_an_upgrade_only_between_two_phases(earlier):
    world = await at_work()
    if earlier:
        forget_what_the_run_determines(world)
    before = str(deployment(world))
    upgrade(world)
    for _ in range(20):  # long enough for what is restored from time to time
        world.pass_time(60)
        await world.reconcile()
        assert str(deployment(world)) == before
    world.finish_phase()
    await world.reconcile()
    assert container(world)["image"] == "registry.test/envs:2"


def shown(world, kind):
    (found,) = (one for one in world.status["conditions"] if one["type"] == kind)
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("observes", [True, False])
async def test_a_phase_begins_when_no_server_of_before_the_upgrade_is_left(observes):
    world = await at_work(World(environments=[BABYAI | {"replicas": 3}]))
    upgrade(world)
    world.finish_phase()
    deployments = world.cluster.deployments
    deployments.new_pods_start, deployments.observes = False, observes
    for _ in range(20):
        await world.reconcile()
        world.pass_time(60)
    assert len(world.kfp.submitted) == 1
    assert world.cluster.servers(UID)[NAME].ready == 3
    waiting = ("True", "EnvironmentsStarting", "waiting for the new servers of babyai")
    assert shown(world, "Progressing") == waiting
    if observes:
        message = "babyai: servers still to be replaced: 3"
        assert shown(world, "EnvironmentsReady") == ("False", "Starting", message)
    deployments.new_pods_start = deployments.observes = True
    await world.reconcile(2)
    assert len(world.kfp.submitted) == 2
    assert shown(world, "EnvironmentsReady")[0] == "True"


PROBLEM = 'CreateContainerConfigError: secret "keys" not found'
NEW_POD = Pod(
    part="babyai",
    run_id="",
    environment="babyai",
    ended=False,
    problem=PROBLEM,
    reason="CreateContainerConfigError",
)


async def edited_to_servers_that_cannot_start():
    world = await at_work()
    world.cluster.deployments.new_pods_start = False
    world.cluster.server_pods = [NEW_POD]
    secret = {"name": "KEY", "secret": "keys", "key": "key"}
    world.cluster.edit(world.key, environments=[BABYAI | {"secretEnv": [secret]}])
    for _ in range(30):
        world.pass_time(60)
        await world.reconcile()
    return world


async def test_servers_that_replace_none_because_they_cannot_start_are_named_and_stop_no_phase():
    world = await edited_to_servers_that_cannot_start()
    message = f"babyai: servers still to be replaced: 1; babyai: {PROBLEM}"
    assert shown(world, "EnvironmentsReady") == ("False", "Starting", message)
    assert shown(world, "Progressing")[:2] == ("True", "Running")
    assert shown(world, "Progressing")[2].endswith(f"babyai: {PROBLEM}")
    assert len(world.kfp.working) == 1


async def test_the_next_phase_waits_for_servers_that_cannot_start_and_says_why():
    world = await edited_to_servers_that_cannot_start()
    world.finish_phase()
    for _ in range(3):
        await world.reconcile()
        world.pass_time(60)
    assert len(world.kfp.submitted) == 1
    message = f"waiting for the new servers of babyai; babyai: {PROBLEM}"
    assert shown(world, "Progressing") == ("True", "PodCannotStart", message)
    blocked = {"reason": "PodCannotStart"}
    samples = world.controller.metrics.registry
    assert samples.get_sample_value("agentrl_runs_blocked", blocked) == 1
    world.cluster.server_pods, world.cluster.deployments.new_pods_start = [], True
    await world.reconcile(2)
    assert len(world.kfp.submitted) == 2


async def test_the_next_attempt_at_a_phase_has_the_new_servers():
    world = await at_work()
    upgrade(world)
    world.finish_phase("FAILED")
    await world.reconcile()
    assert container(world)["image"] == "registry.test/envs:2"


async def test_a_change_of_the_spec_acts_at_once_also_after_an_upgrade():
    world = await at_work()
    world.cluster.edit(world.key, environments=[BABYAI | {"cpu": "2"}])
    await world.reconcile()
    assert container(world)["resources"]["requests"]["cpu"] == "2"
    upgrade(world)
    world.cluster.edit(world.key, environments=[BABYAI | {"cpu": "3"}])
    await world.reconcile()
    assert container(world)["resources"]["requests"]["cpu"] == "3"


@pytest.mark.parametrize("earlier", [False, True])
async def test_a_change_of_the_number_of_servers_replaces_none_after_an_upgrade(earlier):
    world = await at_work()
    if earlier:
        forget_what_the_run_determines(world)
    image = container(world)["image"]
    upgrade(world)
    world.cluster.edit(world.key, environments=[BABYAI | {"replicas": 3}])
    await world.reconcile()
    assert world.cluster.servers(UID)[NAME].wanted == 3
    assert container(world)["image"] == image


async def test_servers_that_are_lost_after_an_upgrade_are_made_again():
    world = await at_work()
    upgrade(world)
    await world.apply("servers deleted")
    await world.reconcile()
    assert container(world)["image"] == "registry.test/envs:2"


async def test_a_field_that_is_not_about_servers_replaces_none_after_an_upgrade():
    world = await at_work()
    before = str(deployment(world))
    upgrade(world)
    world.cluster.edit(world.key, environments=[BABYAI | {"timeoutS": 5}])
    await world.reconcile()
    assert str(deployment(world)) == before


@pytest.mark.parametrize("earlier", [False, True])
async def test_sandboxes_are_replaced_by_an_upgrade_only_between_two_phases(earlier):
    world = await at_work(SandboxWorld())
    if earlier:
        forget_what_the_run_determines(world)
    before = {one["metadata"]["name"]: str(one) for one in world.sandboxes}
    upgrade(world)
    await world.apply("one sandbox deleted")
    for _ in range(6):
        world.pass_time(60)
        await world.reconcile()
    first, second = sorted(before)
    kept = {one["metadata"]["name"]: str(one) for one in world.sandboxes}
    assert set(kept) == {first, second}
    assert kept[second] == before[second]
    world.cluster.edit(world.key, environments=[CODE | {"replicas": 3}, PLAIN])
    world.pass_time(400)
    await world.reconcile(2)
    after = {one["metadata"]["name"]: str(one) for one in world.sandboxes}
    assert len(after) == 3
    assert after[second] == before[second]
    world.finish_phase()
    await world.reconcile(2)
    assert len(world.sandboxes) == 3
    assert all("registry.test/envs:2" in str(one) for one in world.sandboxes)


class UpgradedWorld(SandboxWorld):
    async def apply(self, event):
        if event == "upgrade":
            upgrade(self)
        else:
            await super().apply(event)


@settings(max_examples=40)
@given(st.lists(st.sampled_from((*EVENTS, *SANDBOX_EVENTS, "upgrade")), max_size=40))
def test_with_any_events_the_run_succeeds_and_reconciliations_settle(events):
    async def story():
        world = UpgradedWorld()
        await world.apply_all(events)
        for _ in range(14):  # as long as there is anything to do at once
            await world.reconcile()
        before = {name: str(child) for name, child in world.cluster.children.items()}
        await world.reconcile(2)
        assert before == {name: str(child) for name, child in world.cluster.children.items()}
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status

    asyncio.run(story())
