"""Single calls that fail once: what they should have done is done by the next reconciliation."""

import asyncio

import pytest
from flaky import ERRORS, WRITES
from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import KUEUE_EVENTS, QueuedWorld
from world import EVENTS, FAILURES, UID, World


def fail_next(world, client, method):
    world.failures[client, method] = ERRORS[client]


async def test_a_run_has_ended_only_when_its_servers_are_removed():
    world = World()
    await world.reconcile(2)
    for _ in range(2):
        world.finish_phase()
        await world.reconcile(2)
    world.finish_phase()
    fail_next(world, "cluster", "delete_deployment")
    await world.reconcile()

    assert world.status["state"] == "Running"
    assert "completionTime" not in world.status
    assert world.conditions()["Progressing"] == ("Unknown", "KubernetesRefused")
    await world.reconcile()
    assert world.status["state"] == "Succeeded"
    assert world.tracking.finished == {"mlflow-0": "FINISHED"}
    assert world.cluster.servers(UID) == {}


async def test_an_mlflow_that_is_down_at_the_end_is_asked_again():
    world = World()
    await world.reconcile(2)
    world.tracking.down = True
    for _ in range(3):
        world.finish_phase()
        await world.reconcile(2)
    assert (world.status["state"], world.tracking.finished) == ("Succeeded", {})

    world.tracking.down = False
    world.pass_time(60)
    await world.reconcile()
    assert world.tracking.finished == {"mlflow-0": "FINISHED"}
    assert world.status["mlflowFinished"] is True


async def test_a_run_is_suspended_only_when_its_servers_are_removed():
    world = World()
    await world.reconcile(3)
    await world.apply("suspend")
    await world.reconcile()
    world.stop_work()
    fail_next(world, "cluster", "delete_deployment")
    await world.reconcile()

    assert world.status["state"] == "Running"
    assert world.conditions()["Suspended"] == ("False", "Suspending")
    await world.reconcile()
    assert world.status["state"] == "Suspended"
    assert world.cluster.servers(UID) == {}


CALLS = [(client, method) for client, methods in WRITES.items() for method in methods]


@pytest.mark.parametrize(("client", "method"), CALLS)
async def test_each_call_may_fail_before_every_reconciliation(client, method):
    """From the creation of a run to its deletion, with a suspension in between."""
    world = QueuedWorld(storage={"onDelete": "delete"})
    for event in ("reconcile", "admit", "reconcile", "suspend", "reconcile", "stopped", "resume"):
        await world.apply(event)
        for _ in range(3):
            fail_next(world, client, method)
            await world.reconcile(2)
    for _ in range(40):
        fail_next(world, client, method)
        await world.reconcile(2)
        world.kueue.admit()
        world.stop_work()
        world.finish_phase()
        world.pass_time(61)
    world.failures.clear()
    await world.run_to_end()
    assert world.status["state"] == "Succeeded", world.status
    # Without an MLflow run from the operator, the stages create one.
    created = method not in ("ensure_run", "write_mlflow_run")
    assert world.tracking.finished == ({"mlflow-0": "FINISHED"} if created else {})
    assert world.holds("Finished")
    assert world.cluster.servers(UID) == {}

    fail_next(world, client, method)
    await world.delete_and_wait()
    assert world.key not in world.cluster.resources
    assert world.stores.runs == {}


@settings(max_examples=100)
@given(st.lists(st.sampled_from((*EVENTS, *FAILURES, *FAILURES)), max_size=60))
def test_with_failed_calls_and_any_events_the_run_succeeds_and_leaves_nothing(events):
    async def story():
        world = World()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        await world.reconcile(2)
        assert world.cluster.servers(UID) == {}
        assert not world.kfp.working

    asyncio.run(story())


@settings(max_examples=60)
@given(st.lists(st.sampled_from((*EVENTS, *KUEUE_EVENTS, *FAILURES, *FAILURES)), max_size=40))
def test_with_failed_calls_and_any_events_the_quota_is_released(events):
    async def story():
        world = QueuedWorld()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        await world.reconcile(3)
        assert world.holds("Finished")

    asyncio.run(story())
