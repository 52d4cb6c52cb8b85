"""Runs whose environment servers are Sandboxes of agent-sandbox, simulated in memory."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import KUEUE_EVENTS, PLATFORM, QueuedWorld
from world import EVENTS, UID, World

CODE = {"name": "code", "builtin": "corridor", "backend": "sandbox", "replicas": 2}
PLAIN = {"name": "walk", "builtin": "corridor"}
SANDBOX_EVENTS = (
    "one sandbox deleted",
    "pods gone",
    "pods ready",
    "another replica",
    ("agent_sandbox", "delete_sandbox"),
    ("agent_sandbox", "delete_sandboxes"),
)


class SandboxEvents:
    """Events of Sandboxes, and what holds with them at any time."""

    @property
    def sandboxes(self):
        return self.cluster.agent_sandbox.sandboxes()

    @property
    def names(self):
        return sorted(one["metadata"]["name"] for one in self.sandboxes)

    def check(self):
        super().check()
        kinds = {kind for kind, _, name in self.cluster.children if "-code" in name}
        assert kinds <= {"Sandbox", "Service"}, "an environment has servers of two kinds"

    async def apply(self, event):
        match event:
            case "one sandbox deleted":
                for one in self.sandboxes[:1]:
                    del self.cluster.children["Sandbox", "kubeflow", one["metadata"]["name"]]
            case "pods gone":
                self.cluster.agent_sandbox.ready = False
            case "pods ready":
                self.cluster.agent_sandbox.ready = True
            case "another replica":
                self.cluster.edit(self.key, environments=[CODE | {"replicas": 3}, PLAIN])
            case _:
                await super().apply(event)

    def let_others_act(self):
        super().let_others_act()
        self.cluster.agent_sandbox.ready = True


class SandboxWorld(SandboxEvents, World):
    def __init__(self):
        super().__init__(environments=[CODE, PLAIN])


class QueuedSandboxWorld(SandboxEvents, QueuedWorld):
    def __init__(self):
        World.__init__(self, PLATFORM, environments=[CODE, PLAIN], compute={"queue": "training"})


async def at_work():
    world = SandboxWorld()
    await world.reconcile(3)
    assert len(world.kfp.submitted) == 1
    return world


def succeeds_without_leftovers(make_world, events):
    """Apply the events to a run, and check that it succeeds and leaves no Sandboxes."""

    async def story():
        world = make_world()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        await world.reconcile(3)
        assert world.sandboxes == []

    asyncio.run(story())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(EVENTS + SANDBOX_EVENTS), max_size=40))
def test_with_any_events_the_run_succeeds_and_its_sandboxes_are_gone(events):
    succeeds_without_leftovers(SandboxWorld, events)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS + SANDBOX_EVENTS), max_size=40))
def test_with_any_events_a_queued_run_ends_without_sandboxes(events):
    succeeds_without_leftovers(QueuedSandboxWorld, events)


async def test_a_server_is_a_sandbox_and_another_environment_keeps_its_deployment():
    world = await at_work()
    assert world.names == ["demo-6a1b2c3d-code-0", "demo-6a1b2c3d-code-1"]
    assert set(world.cluster.servers(UID)) == {"demo-6a1b2c3d-walk"}
    assert ("Service", "kubeflow", "demo-6a1b2c3d-code") in world.cluster.children
    assert world.conditions()["EnvironmentsReady"] == ("True", "Ready")


async def test_environments_are_ready_when_their_sandboxes_are():
    world = SandboxWorld()
    world.cluster.agent_sandbox.ready = False
    await world.reconcile(3)
    assert world.conditions()["EnvironmentsReady"] == ("False", "Starting")
    (ready,) = (o for o in world.status["conditions"] if o["type"] == "EnvironmentsReady")
    assert ready["message"] == "code: 0 of 2 servers are ready"
    await world.apply("pods ready")
    await world.reconcile()
    assert world.conditions()["EnvironmentsReady"] == ("True", "Ready")


async def test_without_agent_sandbox_no_phase_starts_and_a_condition_names_the_field():
    world = SandboxWorld()
    world.cluster.agent_sandbox.installed = False
    await world.reconcile(3)
    assert world.kfp.submitted == []
    assert world.conditions()["EnvironmentsReady"] == ("False", "AgentSandboxUnavailable")
    assert world.conditions()["Progressing"] == ("False", "AgentSandboxUnavailable")
    (ready,) = (o for o in world.status["conditions"] if o["type"] == "EnvironmentsReady")
    assert ready["message"] == (
        "spec.environments[0].backend: sandbox needs agent-sandbox, and this Kubernetes does not "
        "serve agents.x-k8s.io/v1beta1; install agent-sandbox 0.5, or leave the field out"
    )
    assert set(world.cluster.servers(UID)) == {"demo-6a1b2c3d-walk"}
    world.cluster.agent_sandbox.installed = True
    await world.reconcile(3)
    assert len(world.kfp.submitted) == 1
    assert len(world.sandboxes) == 2


async def test_a_lost_sandbox_is_created_again():
    world = await at_work()
    await world.apply("one sandbox deleted")
    assert len(world.sandboxes) == 1
    await world.reconcile()
    assert world.names == ["demo-6a1b2c3d-code-0", "demo-6a1b2c3d-code-1"]


async def test_the_number_of_sandboxes_follows_replicas():
    world = await at_work()
    await world.apply("another replica")
    await world.reconcile()
    assert len(world.sandboxes) == 3
    world.cluster.edit(world.key, environments=[CODE | {"replicas": 1}, PLAIN])
    await world.reconcile()
    assert world.names == ["demo-6a1b2c3d-code-0"]


async def test_sandboxes_whose_manifest_has_changed_are_replaced():
    world = await at_work()
    world.cluster.edit(world.key, environments=[CODE | {"runtimeClassName": "gvisor"}, PLAIN])
    await world.reconcile()
    for one in world.sandboxes:
        assert one["spec"]["podTemplate"]["spec"]["runtimeClassName"] == "gvisor"
    assert len(world.sandboxes) == 2


async def test_a_suspended_run_has_no_sandboxes_and_a_resumed_one_has_them_again():
    world = await at_work()
    await world.apply("suspend")
    await world.reconcile()
    world.stop_work()
    await world.reconcile(2)
    assert world.sandboxes == []
    assert world.conditions()["Suspended"][0] == "True"
    await world.apply("resume")
    await world.reconcile(3)
    assert len(world.sandboxes) == 2


async def test_a_new_token_replaces_the_sandboxes_that_have_the_old_one():
    world = await at_work()
    before = [one["spec"] for one in world.sandboxes]
    del world.cluster.children["Secret", "kubeflow", "demo-6a1b2c3d-token"]
    world.finish_phase()
    await world.reconcile(3)
    assert [one["spec"] for one in world.sandboxes] == before
    assert not any(one["spec"] is old for one in world.sandboxes for old in before)
