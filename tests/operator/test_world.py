"""The controller in a world in memory, through everything that can happen in any order."""

import asyncio
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl_components.state import State, Verdict
from agentrl_operator import resource
from agentrl_operator.controller import Controller
from agentrl_operator.memory import MemoryCluster, MemoryKfp
from agentrl_operator.memory_stores import MemoryStores, MemoryTracking
from agentrl_operator.neighbours import Neighbours
from agentrl_pipelines.platform import Mlflow, Platform

UID = "6a1b2c3d-0000-4000-8000-000000000001"
PLATFORM = Platform(tracking=Mlflow(uri="http://mlflow.test"))
SPEC = {
    "environments": [{"name": "babyai", "builtin": "babyai"}],
    "horizon": {
        "phases": [
            {"maxTurns": 3, "iterations": 2},
            {"maxTurns": 6, "iterations": 2},
            {"maxTurns": 9, "iterations": 2},
        ],
    },
    "backoffLimit": 100,
}
STORE = "s3://mlpipeline/agentrl/kubeflow/demo-6a1b2c3d"


class World:
    """One run, its surroundings, and an operator that can be killed and started again."""

    def __init__(self, platform=PLATFORM, **spec):
        self.platform = platform
        self.kfp = MemoryKfp()
        self.cluster = MemoryCluster(self.kfp)
        self.stores = MemoryStores()
        self.tracking = MemoryTracking()
        self.time = datetime(2026, 11, 21, 12, tzinfo=UTC)
        self.key = self.cluster.add("demo", "kubeflow", UID, SPEC | spec)
        self.older = [{}]
        self.shown = set()
        self.restart()

    def restart(self):
        self.controller = Controller(
            Neighbours(
                cluster=self.cluster,
                pipelines=self.kfp,
                stores=self.stores,
                tracking=self.tracking,
                bind=lambda run, uid, platform, queued: {"queued": queued},
            ),
            self.platform,
            now=lambda: self.time,
            clock=lambda: self.time.timestamp(),
        )

    async def look(self, times=1):
        for _ in range(times):
            if self.key in self.cluster.resources:
                self.controller.seen(self.cluster.body(self.key))
            there = self.cluster.servers(UID)
            for name, servers in (dict.fromkeys(self.shown) | there).items():
                self.controller.servers_seen(UID, name, servers)
            self.shown = set(there)
            await self.controller.look(self.key)
            self.check()

    def check(self):
        posted = [one.run_id for one in self.kfp.submitted]
        assert len(posted) == len(set(posted)), "a run was posted twice"
        assert len(self.kfp.working) <= 1, "two attempts at work at once"
        phases = [one.parameters["phase"] for one in self.kfp.submitted]
        assert phases == sorted(phases), "a phase was gone back to"

    @property
    def status(self):
        return self.cluster.resources[self.key].get("status", {})

    def conditions(self):
        return {one["type"]: (one["status"], one["reason"]) for one in self.status["conditions"]}

    def pass_time(self, seconds):
        self.time += timedelta(seconds=seconds)

    def finish_phase(self, state="SUCCEEDED"):
        """The stages of whatever is at work do their phase."""
        for run_id in list(self.kfp.working):
            phase = next(
                one.parameters["phase"] for one in self.kfp.submitted if one.run_id == run_id
            )
            shelf = self.stores.shelf(STORE)
            if state == "SUCCEEDED":
                action = "advance" if phase < 2 else "finish"
                shelf.verdicts[phase] = Verdict(
                    action=action, phase=min(phase + 1, 2), max_turns=3, reason=""
                )
            shelf.standing = State(status="running", phase=phase, iteration=2 * phase + 2)
            self.kfp.end(run_id, state)

    def stop_work(self):
        """What was asked to stop has stopped."""
        for run_id in list(self.kfp.working):
            if self.kfp.states.get(run_id) == "CANCELING":
                self.kfp.end(run_id, "FAILED")

    async def happens(self, event):
        match event:
            case "look":
                await self.look()
            case "time":
                self.pass_time(20)
            case "long time":
                self.pass_time(400)
            case "phase done":
                self.finish_phase()
            case "phase failed":
                self.finish_phase("FAILED")
            case "stopped":
                self.stop_work()
            case "suspend":
                self.cluster.edit(self.key, suspend=True)
            case "resume":
                self.cluster.edit(self.key, suspend=False)
            case "operator killed":
                self.restart()
            case "status lost":
                self.cluster.lose_status(self.key)
            case "status old":
                self.cluster.lose_status(self.key, self.older[len(self.older) // 2])
            case "workflow lost":
                self.kfp.working.clear()
            case "servers deleted":
                self.cluster.children.clear()
            case "answers lost":
                self.kfp.deaf = not self.kfp.deaf
            case _:
                name = event.removesuffix(" down")
                neighbour = getattr(self, name)
                neighbour.down = not neighbour.down
        self.older.append(dict(self.status))

    async def to_the_end(self):
        """Everything is well again, and nothing more goes wrong."""
        for neighbour in (self.kfp, self.cluster, self.stores, self.tracking):
            neighbour.down = False
        self.kfp.deaf = False
        self.cluster.edit(self.key, suspend=False)
        for _ in range(400):
            self.goes_well()
            await self.look()
            if self.status.get("phase") in ("Succeeded", "Failed"):
                return
            self.stop_work()
            self.finish_phase()
            self.pass_time(61)

    def goes_well(self):
        """What others do between two looks when nothing goes wrong."""

    async def through(self, events):
        """They happen, and each is looked at."""
        for event in events:
            await self.happens(event)
            await self.look()

    async def deleted(self):
        """Somebody deletes it, and as much as four minutes pass."""
        self.cluster.down = self.stores.down = False
        self.cluster.delete(self.key, self.time.strftime("%Y-%m-%dT%H:%M:%SZ"))
        for _ in range(120):
            await self.look()
            if self.key not in self.cluster.resources:
                return
            self.stop_work()
            self.pass_time(2)


EVENTS = (
    "look",
    "time",
    "long time",
    "phase done",
    "phase failed",
    "stopped",
    "suspend",
    "resume",
    "operator killed",
    "status lost",
    "status old",
    "workflow lost",
    "servers deleted",
    "answers lost",
    "kfp down",
    "cluster down",
    "stores down",
    "tracking down",
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_whatever_happens_each_attempt_starts_once_and_the_run_succeeds(events):
    async def story():
        world = World()
        await world.through(events)
        await world.to_the_end()
        assert world.status["phase"] == "Succeeded", world.status
        assert [one.parameters["phase"] for one in world.kfp.submitted][-1] == 2
        assert not world.kfp.working
        await world.look(2)
        assert world.cluster.servers(UID) == {}

    asyncio.run(story())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_looking_twice_does_what_looking_once_does(events):
    async def story():
        world = World()
        for event in events:
            await world.happens(event)
        for _ in range(8):  # as long as there is anything to do at once
            await world.look()
        before = (
            list(world.kfp.submitted),
            dict(world.cluster.children),
            dict(world.kfp.states),
            world.cluster.body(world.key)["metadata"].get("finalizers"),
        )
        told = world.cluster.told
        await world.look(2)
        after = (
            list(world.kfp.submitted),
            dict(world.cluster.children),
            dict(world.kfp.states),
            world.cluster.body(world.key)["metadata"].get("finalizers"),
        )
        assert before == after
        assert world.cluster.told == told

    asyncio.run(story())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_a_deleted_run_goes_whatever_happened_and_leaves_nothing_at_work(events):
    async def story():
        world = World(storage={"onDelete": "delete"})
        await world.through(events)
        await world.deleted()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working

    asyncio.run(story())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=30), st.booleans())
def test_a_deleted_run_leaves_nothing_at_work_that_its_status_had_forgotten(events, invalid):
    async def story():
        world = World()
        await world.through(events)
        world.cluster.lose_status(world.key)
        if invalid:
            world.cluster.edit(world.key, seed=-1)
        world.kfp.down = False
        await world.deleted()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working

    asyncio.run(story())


async def test_a_run_deleted_right_after_its_status_was_lost_stops_its_later_phases():
    world = World()
    for _ in range(2):
        await world.look(2)
        world.finish_phase()
    await world.look(3)
    later = resource.run_id(UID, 2, 0)
    assert world.kfp.states[later] == "RUNNING"
    world.cluster.lose_status(world.key)
    world.cluster.delete(world.key, "2026-11-21T12:00:00Z")
    await world.look()

    assert world.kfp.states[later] == "CANCELING"
    assert world.status["message"] == "deleting: the KFP run is being stopped"
    world.kfp.states[later] = "FAILED"  # as KFP says before the last pod has gone
    await world.look()
    assert world.key in world.cluster.resources
    world.kfp.end(later, "FAILED")
    await world.look()
    assert world.key not in world.cluster.resources


async def test_a_run_deleted_after_a_workflow_was_lost_waits_for_nothing():
    world = World()
    await world.look(2)
    first = resource.run_id(UID, 0, 0)
    world.kfp.working.clear()
    world.kfp.states[first] = "CANCELING"  # for ever
    world.kfp.states[resource.run_id(UID, 0, 1)] = "RUNNING"
    world.cluster.lose_status(world.key)
    world.cluster.delete(world.key, "2026-11-21T12:00:00Z")
    await world.look(2)

    assert world.key not in world.cluster.resources


async def test_an_undisturbed_run_takes_one_kfp_run_a_phase():
    world = World()
    await world.to_the_end()

    parameters = [
        (one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted
    ]
    assert parameters == [(0, 0), (1, 0), (2, 0)]
    assert [one.run_id for one in world.kfp.submitted] == [
        resource.run_id(UID, phase, 0) for phase in (0, 1, 2)
    ]
    assert world.tracking.closed == {"mlflow-0": "FINISHED"}
    assert world.status["mlflowUrl"] == "http://mlflow.test/#/runs/mlflow-0"
    reasons = [reason for _, reason, _ in world.cluster.events]
    assert reasons[0] == "Submitting"
    assert reasons[-1] == "ScheduleDone"


async def test_a_run_whose_start_was_not_answered_is_adopted():
    world = World()
    world.kfp.deaf = True
    await world.look()
    assert world.conditions()["Progressing"] == ("Unknown", "KfpUnavailable")

    world.kfp.deaf = False
    await world.look()

    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_mlflow_that_is_down_stops_nothing():
    world = World()
    world.tracking.down = True
    await world.look(2)

    assert world.conditions()["Progressing"] == ("True", "Running")
    assert "mlflowRun" not in world.status
    world.stores.shelf(STORE).mlflow_run = "made-by-a-stage"
    await world.look()
    assert world.status["mlflowRun"] == "made-by-a-stage"


async def test_a_lost_status_is_found_again_without_starting_anything():
    world = World()
    for _ in range(2):
        await world.look(2)
        world.finish_phase()
    await world.look(3)
    assert world.status["phaseIndex"] == 2
    world.cluster.lose_status(world.key)
    world.restart()

    await world.look(6)

    assert world.status["phaseIndex"] == 2
    assert len(world.kfp.submitted) == 3


async def test_a_suspension_stops_work_that_a_lost_status_had_forgotten():
    world = World()
    await world.look(2)
    world.finish_phase()
    await world.look(3)
    assert [one.parameters["phase"] for one in world.kfp.submitted] == [0, 1]
    world.cluster.lose_status(world.key)
    await world.happens("suspend")

    await world.look(2)

    assert world.kfp.states[resource.run_id(UID, 1, 0)] == "CANCELING"
    world.stop_work()
    await world.look()
    assert world.status["phase"] == "Suspended"


async def test_suspensions_do_not_count_as_failures():
    world = World(backoffLimit=0)
    for _ in range(3):
        await world.look(2)
        await world.happens("suspend")
        await world.look()
        world.stop_work()
        await world.look()
        assert world.status["phase"] == "Suspended"
        assert world.cluster.servers(UID) == {}
        await world.happens("resume")
        await world.look(3)
    await world.to_the_end()

    assert world.status["phase"] == "Succeeded"
    attempts = [(one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted]
    assert attempts == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]


async def test_what_somebody_deleted_is_made_anew_with_the_next_phase_and_servers_learn_the_token():
    world = World()
    await world.look(2)
    children = world.cluster.children
    before = {kind: one for (kind, _, _), one in children.items()}
    for kind in ("Service", "Secret"):
        children.pop(next(key for key in children if key[0] == kind))

    world.finish_phase()
    await world.look(3)

    after = {kind: one for (kind, _, _), one in children.items()}
    assert after["Service"] == before["Service"]
    assert after["Secret"]["data"] != before["Secret"]["data"]
    assert after["Deployment"] == before["Deployment"]
    assert world.cluster.removed == ["demo-6a1b2c3d-babyai"]


async def test_a_neighbour_that_does_not_answer_shows_in_the_metrics():
    world = World()
    await world.look(3)
    world.kfp.down = True
    await world.look()
    world.kfp.down, world.stores.down = False, True
    await world.look()
    registry = world.controller.metrics.registry
    for neighbour in ("Kfp", "Standing"):
        counted = {"neighbour": neighbour}
        assert registry.get_sample_value("agentrl_operator_troubles_total", counted) == 1


async def test_a_bug_in_one_look_shows_in_the_metrics_and_the_run_is_tried_again():
    world = World()

    def broken(run, uid, platform, queued):
        raise ZeroDivisionError

    neighbours = Neighbours(
        cluster=world.cluster,
        pipelines=world.kfp,
        stores=world.stores,
        tracking=world.tracking,
        bind=broken,
    )
    controller = Controller(neighbours, PLATFORM, workers=2)
    async with controller.working():
        controller.seen(world.cluster.body(world.key))
        async with asyncio.timeout(30):
            while not controller.metrics.registry.get_sample_value(
                "agentrl_operator_reconciles_total", {"result": "bug"}
            ):
                await asyncio.sleep(0.01)


async def test_many_runs_are_worked_on_side_by_side():
    world, count = World(), 300
    keys = [
        world.cluster.add(f"run-{n}", "kubeflow", f"6a1b2c3d-0000-4000-8000-{n:012}", SPEC)
        for n in range(1000, 1000 + count)
    ]
    async with world.controller.working(), asyncio.timeout(60):
        for key in keys:
            world.controller.seen(world.cluster.body(key))
        while len(world.kfp.submitted) < count:
            await asyncio.sleep(0.01)
    assert len({one.run_id for one in world.kfp.submitted}) == count
