"""Runs that Kueue admits as a whole, simulated in memory."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import KUEUE_EVENTS, QueuedWorld
from world import EVENTS, UID, World

from agentrl_pipelines.platform.config import Mlflow, Platform

PODS = Platform(tracking=Mlflow(uri="http://mlflow.test"))


@settings(max_examples=80)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=50))
def test_with_any_events_nothing_starts_before_admission_and_the_run_succeeds(events):
    async def story():
        world = QueuedWorld()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        assert [one.parameters["phase"] for one in world.kfp.submitted][-1] == 2
        await world.reconcile(3)
        assert world.cluster.servers(UID) == {}
        assert not world.kfp.working
        assert world.workload is None or world.holds("Finished")

    asyncio.run(story())


@settings(max_examples=100)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=30))
def test_a_second_reconciliation_writes_nothing_new_to_kueue(events):
    async def story():
        world = QueuedWorld()
        for event in events:
            await world.apply(event)
        for _ in range(12):  # as long as there is anything to do at once
            await world.reconcile()

        def shown():
            return (
                list(world.kfp.submitted),
                dict(world.kfp.states),
                {name: str(child) for name, child in world.cluster.children.items()},
            )

        before, told = shown(), world.cluster.status_patches
        await world.reconcile(2)
        assert before == shown()
        assert world.cluster.status_patches == told

    asyncio.run(story())


@settings(max_examples=100)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=30))
def test_a_deleted_run_leaves_no_workload(events):
    async def story():
        world = QueuedWorld(storage={"onDelete": "delete"})
        await world.apply_all(events)
        await world.delete_and_wait()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working
        assert world.workload is None

    asyncio.run(story())


async def test_a_queued_run_shows_the_message_of_kueue():
    world = QueuedWorld()
    await world.reconcile(2)

    assert world.workload["spec"]["queueName"] == "training"
    assert world.kfp.submitted == []
    assert world.cluster.servers(UID) == {}
    assert world.status["state"] == "Pending"
    assert world.conditions()["Admitted"] == ("False", "Queued")
    assert world.conditions()["Progressing"] == ("False", "Queued")
    assert world.status["message"] == "in the queue: waiting for Kueue"

    world.kueue.admit()
    await world.reconcile(3)

    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Admitted"] == ("True", "Admitted")
    assert world.status["state"] == "Running"
    assert world.holds("PodsReady")  # or Kueue would evict it after half an hour


async def test_an_evicted_run_stops_releases_its_quota_and_continues_without_a_failure():
    world = QueuedWorld(backoffLimit=0)
    await world.reconcile()
    for _ in range(3):
        world.kueue.admit()
        await world.reconcile(3)
        world.kueue.evict()
        await world.reconcile()
        assert world.conditions()["Admitted"] == ("False", "Evicted")
        assert world.holds("QuotaReserved")
        world.stop_work()
        await world.reconcile(4)
        assert world.cluster.servers(UID) == {}
        assert not world.holds("QuotaReserved")
        assert world.holds("Requeued")
        assert "admission" not in world.workload["status"]
        assert not world.holds("Admitted")
        assert not world.holds("PodsReady")
    await world.run_to_end()

    assert world.status["state"] == "Succeeded"
    assert world.status["failures"] == 0
    attempts = [(one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted]
    assert attempts == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]


async def test_time_in_the_queue_does_not_count_towards_the_deadline():
    world = QueuedWorld(activeDeadlineSeconds=3600)
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.pass_time(600)
    world.kueue.evict()
    await world.reconcile()
    world.stop_work()
    await world.reconcile(3)
    world.pass_time(7200)
    await world.reconcile()

    assert world.status["activeSeconds"] == 600
    world.kueue.admit()
    await world.reconcile(3)
    assert world.status["state"] == "Running"


async def test_a_deactivated_run_stays_out_of_the_queue_until_it_is_activated():
    world = QueuedWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.kueue.activate(False)
    await world.reconcile()
    world.stop_work()
    await world.reconcile(3)
    world.kueue.admit()
    await world.reconcile()

    assert not world.holds("QuotaReserved")
    assert not world.holds("Requeued")  # Kueue's to say, once it is active again
    assert world.status["message"] == "in the queue: The workload is deactivated"
    world.kueue.activate(True)
    world.kueue.admit()
    await world.reconcile(2)
    assert [one.parameters["attempt"] for one in world.kfp.submitted] == [0, 1]


async def test_a_suspended_run_leaves_the_queue():
    world = QueuedWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    await world.apply("suspend")
    await world.reconcile()
    assert world.workload is not None
    world.stop_work()
    await world.reconcile(3)

    assert world.workload is None
    assert world.conditions()["Admitted"] == ("False", "Suspended")
    await world.apply("resume")
    await world.reconcile(2)
    assert world.conditions()["Admitted"] == ("False", "Queued")


async def test_a_finished_run_has_a_finished_workload():
    world = QueuedWorld()
    await world.run_to_end()
    await world.reconcile(3)

    finished = [one for one in world.workload["status"]["conditions"] if one["type"] == "Finished"]
    assert [(one["status"], one["reason"]) for one in finished] == [("True", "Succeeded")]


async def test_a_run_that_requests_more_is_queued_again():
    world = QueuedWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.cluster.edit(world.key, compute={"queue": "training", "cpu": "8"})
    await world.reconcile()
    world.stop_work()
    await world.reconcile(4)

    assert not world.holds("QuotaReserved")
    asked = world.workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    assert asked["resources"]["requests"]["cpu"] == "8"


async def test_a_run_without_a_queue_any_more_continues():
    world = QueuedWorld()
    await world.reconcile()
    world.cluster.edit(world.key, compute={})
    await world.reconcile(3)

    assert world.workload is None
    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Admitted"] == ("True", "NotQueued")


async def test_where_kueue_admits_pods_there_is_no_workload():
    world = World(PODS, compute={"queue": "training"})
    await world.reconcile(2)

    assert len(world.kfp.submitted) == 1
    assert [kind for kind, _, _ in world.cluster.children] == ["Secret", "Service", "Deployment"]
    assert "Admitted" not in world.conditions()
