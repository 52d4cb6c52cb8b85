"""The nodes that Kueue assigns to a run, simulated in memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import CLASS, KUEUE_EVENTS, PLATFORM, QueuedWorld, evicted
from world import EVENTS, SPEC, UID

from agentrl_operator.api import resource
from agentrl_operator.api.status import Status
from agentrl_operator.controller.kueue_reader import KueueReader
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.labels import FINGERPRINT
from agentrl_operator.manifests.metadata import fingerprint
from agentrl_operator.planning.observation import Unknown
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

SPOT = {
    "nodeLabels": {"kind": "spot"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
}
OWNED = {"nodeLabels": {"kind": "owned"}}
TRAIN, SERVERS = "train", "environment-babyai"


class FlavoredWorld(QueuedWorld):
    """A simulation in which Kueue has two resource flavors."""

    def __init__(self, **spec):
        super().__init__(**spec)
        self.kueue.flavors |= {"spot": SPOT, "owned": OWNED}
        self.kueue.assigned |= {TRAIN: "spot", SERVERS: "owned"}

    def deployment(self):
        found = [one for (kind, _, _), one in self.cluster.children.items() if kind == "Deployment"]
        return found[0]["spec"]["template"]["spec"] if found else None

    def trained_on(self):
        """The node labels of the trainer of each attempt."""
        queued = [one.pipeline_spec["queued"] for one in self.kfp.submitted]
        return [dict(one.pod_sets[TRAIN].node_selector) for one in queued]

    async def apply(self, event):
        match event:
            case "other nodes":
                self.kueue.assigned |= {TRAIN: "owned", SERVERS: "spot"}
            case "same nodes":
                self.kueue.assigned |= {TRAIN: "spot", SERVERS: "owned"}
            case "urgent" | "calm" | "unheard of":
                self.cluster.label(self.key, **{CLASS: event})
            case "no class":
                self.cluster.label(self.key, **{CLASS: None})
            case _:
                await super().apply(event)

    async def reconcile(self, times=1):
        for _ in range(times):
            before = len(self.kfp.submitted)
            await super().reconcile()
            if len(self.kfp.submitted) > before:
                chosen = workload.read(self.workload).flavors
                train, servers = (self.kueue.flavors[chosen[one][0]] for one in (TRAIN, SERVERS))
                assert self.trained_on()[-1].items() >= train["nodeLabels"].items()
                on = self.deployment()["nodeSelector"]
                assert on.items() >= servers["nodeLabels"].items()


async def test_the_nodes_of_the_flavors_reach_the_pods_of_each_set():
    world = FlavoredWorld()
    await world.reconcile()
    world.kueue.admit()
    world.restart()  # what Kueue chose is read, never remembered
    await world.reconcile(2)

    (submitted,) = world.kfp.submitted
    train = submitted.pipeline_spec["queued"].pod_sets[TRAIN]
    assert train == PodSetInfo(
        node_selector={"kind": "spot"}, tolerations=tuple(SPOT["tolerations"])
    )
    assert world.deployment()["nodeSelector"] == {"kind": "owned"}
    assert "tolerations" not in world.deployment()


async def test_nodes_of_admission_checks_and_flavors_both_reach_the_pods():
    world = FlavoredWorld()
    await world.reconcile()
    room = {"nodeSelector": {"pool": "bought"}, "annotations": {"room": "1"}}
    both = [{"name": name} | room for name in (TRAIN, SERVERS)]
    check = {"name": "room", "state": "Ready", "podSetUpdates": both}
    world.workload.setdefault("status", {})["admissionChecks"] = [check]
    world.kueue.admit()
    await world.reconcile(2)

    (submitted,) = world.kfp.submitted
    assert submitted.pipeline_spec["queued"].pod_sets[TRAIN] == PodSetInfo(
        node_selector={"kind": "spot", "pool": "bought"},
        tolerations=tuple(SPOT["tolerations"]),
        pod_annotations={"room": "1"},
    )
    assert world.deployment()["nodeSelector"] == {"kind": "owned", "pool": "bought"}


async def test_after_an_eviction_the_next_attempt_uses_the_new_nodes():
    world = FlavoredWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    await evicted(world)
    await world.apply("other nodes")
    world.kueue.admit()
    await world.reconcile(2)

    assert world.trained_on() == [{"kind": "spot"}, {"kind": "owned"}]
    assert world.deployment()["nodeSelector"] == {"kind": "spot"}
    assert world.deployment()["tolerations"] == SPOT["tolerations"]


async def test_later_phases_and_a_restarted_operator_use_the_same_nodes():
    world = FlavoredWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    made = world.deployment()
    world.restart()
    world.finish_phase()
    await world.reconcile(3)

    assert world.trained_on() == [{"kind": "spot"}, {"kind": "spot"}]
    assert world.deployment() == made


async def test_nothing_starts_while_a_flavor_does_not_exist():
    world = FlavoredWorld()
    await world.reconcile()
    world.kueue.admit()
    del world.kueue.flavors["spot"]
    await world.reconcile(2)

    assert world.kfp.submitted == []
    assert world.cluster.servers(UID) == {}
    assert world.conditions()["Progressing"] == ("Unknown", "KubernetesRefused")
    assert world.status["message"] == "Kueue: there is no ResourceFlavor spot"
    world.kueue.flavors["spot"] = SPOT
    await world.reconcile(2)
    assert world.trained_on() == [{"kind": "spot"}]


async def test_servers_are_updated_when_their_flavor_changes():
    world = FlavoredWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.kueue.flavors["owned"] = {"nodeLabels": {"kind": "bought"}}
    world.pass_time(11)
    await world.reconcile()

    assert world.deployment()["nodeSelector"] == {"kind": "bought"}


ROOMS = {"name": "rooms", "builtin": "corridor"}


def deployments(world):
    """The node selectors of all Deployments, by name."""
    return {
        name: made["spec"]["template"]["spec"].get("nodeSelector")
        for (kind, _, name), made in world.cluster.children.items()
        if kind == "Deployment"
    }


async def test_environments_that_share_a_pod_set_have_its_nodes():
    big = {"name": "big", "builtin": "corridor", "memory": "4Gi"}
    world = FlavoredWorld(environments=[*SPEC["environments"], ROOMS, big])
    world.kueue.assigned["environment-big"] = "spot"
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)

    assert deployments(world) == {
        "demo-6a1b2c3d-babyai": {"kind": "owned"},
        "demo-6a1b2c3d-rooms": {"kind": "owned"},
        "demo-6a1b2c3d-big": {"kind": "spot"},
    }


async def test_the_workload_of_an_earlier_operator_with_a_set_for_each_environment_is_kept():
    world = FlavoredWorld(environments=[*SPEC["environments"], ROOMS])
    world.kueue.assigned["environment-rooms"] = "spot"
    await world.reconcile()
    spec = world.workload["spec"]
    train, servers = spec["podSets"]
    apart = [servers | {"name": name, "count": 1} for name in (SERVERS, "environment-rooms")]
    spec["podSets"] = [train, *apart]
    world.workload["metadata"]["annotations"][FINGERPRINT] = fingerprint(spec)
    world.kueue.admit()
    await world.reconcile(3)

    assert len(world.workload["spec"]["podSets"]) == 3
    assert len(world.kfp.working) == 1
    assert deployments(world) == {
        "demo-6a1b2c3d-babyai": {"kind": "owned"},
        "demo-6a1b2c3d-rooms": {"kind": "spot"},
    }
    world.cluster.edit(world.key, environments=[*SPEC["environments"], ROOMS | {"cpu": "1"}])
    await world.reconcile()
    assert world.conditions()["Admitted"] == ("False", "Evicted")


NODES_EVENTS = ("other nodes", "same nodes", "urgent", "calm", "unheard of", "no class")


@settings(max_examples=40)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS * 2 + NODES_EVENTS), max_size=30))
def test_a_second_reconciliation_requests_nothing_new_of_kueue(events):
    async def story():
        world = FlavoredWorld()
        world.kueue.classes |= {"urgent": 100, "calm": 1}
        for event in events:
            await world.apply(event)
        for _ in range(14):  # as long as there is anything to do at once
            await world.reconcile()
        before = {name: str(child) for name, child in world.cluster.children.items()}
        told = world.cluster.status_patches
        await world.reconcile(2)
        assert before == {name: str(child) for name, child in world.cluster.children.items()}
        assert world.cluster.status_patches == told

    asyncio.run(story())


@settings(max_examples=40)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS * 2 + NODES_EVENTS), max_size=50))
def test_with_any_events_each_attempt_uses_the_latest_nodes_of_kueue(events):
    async def story():
        world = FlavoredWorld()
        world.kueue.classes |= {"urgent": 100, "calm": 1}
        await world.apply_all(events)
        await world.apply("urgent")
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        for labels in world.trained_on():
            assert labels in (SPOT["nodeLabels"], OWNED["nodeLabels"])

    asyncio.run(story())


class Counted:
    """Kueue with two flavors; reads of one fail with the given HTTP status."""

    def __init__(self, status):
        self.asked = []
        self.status = status

    async def get_workload(self, namespace, name):
        flavors = {"train": {"cpu": "spot", "memory": "spot", "nvidia.com/gpu": "devices"}}
        assignments = [{"name": name, "flavors": flavors[name]} for name in flavors]
        admitted = {"type": "Admitted", "status": "True"}
        status = {"admission": {"podSetAssignments": assignments}, "conditions": [admitted]}
        return {"metadata": {}, "status": status}

    async def get_resource_flavor(self, name):
        self.asked.append(name)
        if name == "devices" and self.status is not None:
            retryable = self.status >= 500
            raise KubernetesError("Kubernetes: no", status=self.status, retryable=retryable)
        return {"spec": {"nodeLabels": {name: "yes"}}}


def queued_resource(**labels):
    cluster = MemoryCluster(MemoryKfp())
    key = cluster.add("demo", "kubeflow", UID, SPEC | {"compute": {"queue": "training"}})
    cluster.label(key, **labels)
    return resource.read(cluster.body(key), PLATFORM)


async def test_flavors_of_a_pod_set_are_combined_and_cached():
    kueue, now = Counted(None), [0.0]
    reader = KueueReader(kueue, PLATFORM, lambda: now[0])
    for _ in range(3):
        seen = await reader.read(queued_resource(), Status())
        assert seen.nodes == {"train": PodSetInfo(node_selector={"spot": "yes", "devices": "yes"})}
    assert sorted(kueue.asked) == ["devices", "spot"]
    now[0] = 10.0
    await reader.read(queued_resource(), Status())
    assert sorted(kueue.asked) == ["devices", "devices", "spot", "spot"]


async def test_a_forbidden_read_is_unknown_and_a_temporary_error_is_raised():
    seen = await KueueReader(Counted(403), PLATFORM, lambda: 0.0).read(queued_resource(), Status())
    assert seen.nodes == Unknown(message="Kubernetes: no")
    with pytest.raises(KubernetesError):
        await KueueReader(Counted(503), PLATFORM, lambda: 0.0).read(queued_resource(), Status())
