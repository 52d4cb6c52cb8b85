"""Reads that fail for a while, or are refused: what cannot be read is not taken for deleted."""

import asyncio

import pytest
from flaky import ERRORS, READS, REFUSED
from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import KUEUE_EVENTS, PLATFORM, QueuedWorld
from virtual_time import virtual_time
from world import EVENTS, UID, World

RAY = {"ray": "cluster", "trainers": {"count": 2}, "samplers": {"count": 3}}
ENVIRONMENTS = [
    {"name": "code", "builtin": "corridor", "backend": "sandbox", "replicas": 2},
    {"name": "walk", "builtin": "corridor"},
]


class AddonEvents:
    """Events of reads that fail, for a run with objects of every optional add-on."""

    @property
    def unwatched(self):
        """The names of the objects that the operator does not watch and has to delete."""
        kinds = ("RayCluster", "Sandbox")
        return sorted(name for kind, _, name in self.cluster.children if kind in kinds)

    async def apply(self, event):
        match event:
            case ("refused", client, method):
                self.broken[client, method] = REFUSED
            case ("down", client, method):
                self.broken[client, method] = ERRORS[client]
            case "reads succeed":
                self.broken.clear()
            case _:
                await super().apply(event)

    @property
    def phase(self):
        """The phase at work; 3 if the run has ended."""
        return 3 if self.status.get("completionTime") else self.status.get("phaseIndex", 0)

    async def try_to_reach(self, phase):
        """Reconcile until the run works in `phase`, which it may be unable to reach."""
        for _ in range(20):
            self.let_others_act()
            await self.reconcile(2)
            if self.phase >= phase and (self.kfp.working or self.phase == 3):
                return
            self.stop_work()
            self.finish_phase()
            self.pass_time(61)

    async def end_after(self, events, phase, last_events):
        """The story of a run: `events`, then a time without trouble until `phase`, then the
        `last_events`, and the attempt to end with what they broke. After that all reads succeed,
        and nothing happens but what the operator has planned."""
        await self.apply_all(events)
        self.repair()
        await self.try_to_reach(phase)
        await self.apply_all(last_events)
        await self.try_to_reach(3)
        await self.act_alone(300)
        if self.phase < 3:
            await self.run_to_end()
            await self.act_alone(300)
        assert self.status["state"] == "Succeeded", self.status
        assert self.unwatched == []
        assert "ray" not in self.status

    def repair(self):
        self.broken.clear()
        super().repair()

    async def act_alone(self, seconds):
        """All reads succeed from now on, and only the operator acts, when it has planned to."""
        async with self.controller.run_workers():
            self.watch()
            await asyncio.sleep(1)
            self.broken.clear()
            for _ in range(seconds):
                self.watch()
                await asyncio.sleep(1)


class AddonWorld(AddonEvents, World):
    def __init__(self, **compute):
        super().__init__(environments=ENVIRONMENTS, compute=RAY | compute)


class QueuedAddonWorld(AddonEvents, QueuedWorld):
    def __init__(self):
        World.__init__(
            self, PLATFORM, environments=ENVIRONMENTS, compute=RAY | {"queue": "training"}
        )


KUBERNETES = ("cluster", "kueue", "kuberay", "agent_sandbox")
REFUSALS = [("refused", c, m) for c, methods in READS.items() if c in KUBERNETES for m in methods]
OUTAGES = [("down", client, method) for client, methods in READS.items() for method in methods]


async def in_last_phase():
    world = AddonWorld()
    for _ in range(2):
        await world.reconcile(3)
        world.finish_phase()
    await world.reconcile(3)
    assert len(world.kfp.submitted) == 3
    assert len(world.unwatched) == 3
    return world


@pytest.mark.parametrize(
    ("client", "method", "left"),
    [
        ("kuberay", "get_ray_cluster", ["demo-6a1b2c3d-ray"]),
        (
            "agent_sandbox",
            "list_sandboxes",
            ["demo-6a1b2c3d-code-0", "demo-6a1b2c3d-code-1"],
        ),
    ],
)
def test_what_could_not_be_read_when_the_run_ended_is_deleted_later(client, method, left):
    @virtual_time
    async def story():
        world = await in_last_phase()
        await world.apply(("refused", client, method))
        world.finish_phase()
        await world.reconcile(3)
        assert world.status["state"] == "Succeeded"
        assert world.unwatched == left
        assert ("ray" in world.status) == (client == "kuberay")
        await world.act_alone(120)
        assert world.unwatched == []
        assert "ray" not in world.status

    story()


def test_a_cluster_that_cannot_be_read_is_named_though_the_status_was_lost():
    @virtual_time
    async def story():
        world = await in_last_phase()
        await world.apply(("refused", "kuberay", "get_ray_cluster"))
        await world.apply("status lost")
        await world.reconcile(4)
        assert world.status["ray"]["cluster"] == "demo-6a1b2c3d-ray"
        assert world.status["ray"]["workers"] == "unknown"
        world.finish_phase()
        await world.reconcile(3)
        assert world.status["state"] == "Succeeded"
        await world.act_alone(120)
        assert world.unwatched == []
        assert "ray" not in world.status

    story()


def test_what_could_not_be_read_when_the_run_was_suspended_is_deleted_later():
    @virtual_time
    async def story():
        world = AddonWorld()
        await world.reconcile(3)
        await world.apply(("refused", "kuberay", "get_ray_cluster"))
        await world.apply(("refused", "agent_sandbox", "list_sandboxes"))
        await world.apply("suspend")
        await world.reconcile()
        world.stop_work()
        await world.reconcile(2)
        assert world.status["state"] == "Suspended"
        assert len(world.unwatched) == 3
        await world.act_alone(120)
        assert world.unwatched == []
        assert "ray" not in world.status

    story()


def test_a_cluster_that_the_manifest_no_longer_wants_is_deleted_once_it_can_be_read():
    @virtual_time
    async def story():
        world = await in_last_phase()
        await world.apply(("refused", "kuberay", "get_ray_cluster"))
        world.cluster.edit(world.key, compute={"ray": "embedded"})
        await world.reconcile(2)
        assert world.status["ray"]["cluster"] == "demo-6a1b2c3d-ray"
        world.finish_phase()
        await world.reconcile(3)
        assert world.status["state"] == "Succeeded"
        await world.act_alone(120)
        assert world.unwatched == []

    story()


def test_a_finished_run_is_not_watched_because_kuberay_was_removed():
    @virtual_time
    async def story():
        world = await in_last_phase()
        del world.cluster.children["RayCluster", "kubeflow", "demo-6a1b2c3d-ray"]
        world.cluster.kuberay.installed = False
        world.finish_phase()
        await world.reconcile(3)
        assert world.status["state"] == "Succeeded"
        assert "ray" not in world.status

    story()


def stories(*more):
    """Strategy: the arguments of `end_after`."""
    broken = st.sampled_from((*REFUSALS, *OUTAGES, "suspend", "status lost", "operator killed"))
    events = st.lists(st.sampled_from((*EVENTS, *REFUSALS, *OUTAGES, *more)), max_size=20)
    return st.tuples(events, st.integers(0, 3), st.lists(broken, max_size=4))


@settings(max_examples=60)
@given(stories())
def test_whatever_reads_fail_an_ended_run_leaves_nothing_once_they_succeed(story):
    @virtual_time
    async def told():
        world = AddonWorld()
        await world.end_after(*story)
        assert world.cluster.servers(UID) == {}
        assert not world.kfp.working

    told()


@settings(max_examples=40)
@given(stories(*KUEUE_EVENTS))
def test_whatever_reads_fail_an_ended_run_gives_back_its_quota_once_they_succeed(story):
    @virtual_time
    async def told():
        world = QueuedAddonWorld()
        await world.end_after(*story)
        assert world.workload is None or world.holds("Finished")

    told()


@settings(max_examples=40)
@given(st.lists(st.sampled_from((*EVENTS, *REFUSALS, *OUTAGES, "reads succeed")), max_size=40))
def test_whatever_reads_fail_a_deleted_run_leaves_nothing_that_kubernetes_keeps(events):
    @virtual_time
    async def told():
        world = AddonWorld()
        await world.apply_all(events)
        await world.delete_and_wait()
        assert world.key not in world.cluster.resources
        # Neither KFP nor Kubernetes may have shown what was at work.
        assert not world.kfp.working or world.kfp.down or world.broken
        # Kubernetes deletes what a deleted run owns.
        owners = [one["metadata"]["ownerReferences"] for one in world.cluster.children.values()]
        assert all(one["uid"] == UID for (one,) in owners)

    told()
