"""Property tests of the controller: any events in any order, simulated in memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import EVENTS, STORE, UID, World

from agentrl_components.storage.records import HeldoutSummary, RunState
from agentrl_operator.api import resource


@settings(max_examples=150)
@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_with_any_events_each_attempt_starts_once_and_the_run_succeeds(events):
    async def story():
        world = World()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        assert [one.parameters["phase"] for one in world.kfp.submitted][-1] == 2
        assert not world.kfp.working
        await world.reconcile(2)
        assert world.cluster.servers(UID) == {}

    asyncio.run(story())


@settings(max_examples=150)
@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_a_second_reconciliation_changes_nothing(events):
    async def story():
        world = World()
        for event in events:
            await world.apply(event)
        for _ in range(8):  # as long as there is anything to do at once
            await world.reconcile()
        before = (
            list(world.kfp.submitted),
            dict(world.cluster.children),
            dict(world.kfp.states),
            world.cluster.body(world.key)["metadata"].get("finalizers"),
        )
        told = world.cluster.status_patches
        await world.reconcile(2)
        after = (
            list(world.kfp.submitted),
            dict(world.cluster.children),
            dict(world.kfp.states),
            world.cluster.body(world.key)["metadata"].get("finalizers"),
        )
        assert before == after
        assert world.cluster.status_patches == told

    asyncio.run(story())


@settings(max_examples=100)
@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_with_any_events_a_deleted_run_is_removed_and_leaves_no_work(events):
    async def story():
        world = World(storage={"onDelete": "delete"})
        await world.apply_all(events)
        await world.delete_and_wait()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working

    asyncio.run(story())


@settings(max_examples=50)
@given(st.lists(st.sampled_from(EVENTS), max_size=30), st.booleans())
def test_a_deleted_run_with_a_lost_status_leaves_no_work(events, invalid):
    async def story():
        world = World()
        await world.apply_all(events)
        world.cluster.lose_status(world.key)
        if invalid:
            world.cluster.edit(world.key, seed=-1)
        world.kfp.down = False
        await world.delete_and_wait()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working

    asyncio.run(story())


async def test_a_run_that_is_deleted_while_no_operator_acts_leaves_no_work_and_no_data():
    world = World(storage={"onDelete": "delete"})
    await world.reconcile(2)
    world.delete()
    world.pass_time(660)  # more than a deletion waits for pods and for the store
    world.restart()
    await world.reconcile()
    assert set(world.kfp.states.values()) == {"CANCELING"}
    assert world.key in world.cluster.resources
    world.stop_work()
    await world.reconcile()

    assert world.key not in world.cluster.resources
    assert not world.kfp.working
    assert world.stores.runs == {}


@pytest.mark.parametrize("finished", [False, True])
async def test_a_deletion_gives_up_a_store_that_does_not_answer_for_ten_minutes(finished):
    world = World(storage={"onDelete": "delete"})
    await (world.run_to_end() if finished else world.reconcile(2))
    world.finish_phase("FAILED")
    world.stores.down = True
    world.delete()
    await world.reconcile(2)
    world.pass_time(599)
    await world.reconcile()
    assert world.conditions()["Progressing"] == ("Unknown", "StoreUnavailable")
    world.pass_time(1)
    await world.reconcile()
    assert world.key not in world.cluster.resources


async def test_an_undisturbed_run_has_one_kfp_run_per_phase():
    world = World()
    await world.run_to_end()

    parameters = [
        (one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted
    ]
    assert parameters == [(0, 0), (1, 0), (2, 0)]
    assert [one.run_id for one in world.kfp.submitted] == [
        resource.run_id(UID, phase, 0) for phase in (0, 1, 2)
    ]
    assert world.tracking.finished == {"mlflow-0": "FINISHED"}
    assert world.status["mlflowUrl"] == "http://mlflow.test/#/runs/mlflow-0"
    reasons = [reason for _, reason, _ in world.cluster.events]
    assert reasons == ["Ready", "Submitting", "ScheduleDone"]


async def test_suspensions_do_not_count_as_failures():
    world = World(backoffLimit=0)
    for _ in range(3):
        await world.reconcile(2)
        await world.apply("suspend")
        await world.reconcile()
        world.stop_work()
        await world.reconcile()
        assert world.status["state"] == "Suspended"
        assert world.cluster.servers(UID) == {}
        await world.apply("resume")
        await world.reconcile(3)
    await world.run_to_end()

    assert world.status["state"] == "Succeeded"
    attempts = [(one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted]
    assert attempts == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]


async def test_a_deleted_token_secret_is_created_again_in_the_next_phase_with_new_servers():
    world = World()
    await world.reconcile(2)
    children = world.cluster.children
    before = {kind: one for (kind, _, _), one in children.items()}
    for kind in ("Service", "Secret"):
        children.pop(next(key for key in children if key[0] == kind))

    world.finish_phase()
    await world.reconcile(3)

    after = {kind: one for (kind, _, _), one in children.items()}
    assert after["Service"] == before["Service"]
    assert after["Secret"]["data"] != before["Secret"]["data"]
    assert after["Deployment"] == before["Deployment"]
    assert world.cluster.deleted_deployments == ["demo-6a1b2c3d-babyai"]


async def test_a_run_of_which_many_environments_were_down_goes_on():
    """Their names do not fit into the status, and an API server refuses a longer text."""
    world = World()
    await world.reconcile(3)
    world.finish_phase()
    names = ("deepsearch-hotpotqa", "textcraft-agentgym", "webarena-sites")
    heldout = HeldoutSummary(name="2", success=0.81, low=0.77, high=0.85, n=99, missing=names)
    data = world.stores.run(STORE)
    data.state = RunState(status="running", phase=0, iteration=2, heldout=heldout)
    await world.reconcile(3)

    assert world.status["phaseIndex"] == 1
    assert world.status["success"] == "81% [77, 85] without deepsearch-hotpotqa and 2 more"


async def test_a_message_of_any_length_leaves_the_status_writable():
    world = World()
    await world.reconcile(3)
    message = "iteration 1: " + "x" * 40_000
    world.stores.run(STORE).state = RunState(
        status="running", phase=0, iteration=1, message=message
    )
    await world.reconcile()

    assert world.status["iteration"] == 1
    assert len(world.status["message"]) == 4096
