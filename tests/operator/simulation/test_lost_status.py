"""Runs whose status was lost: their work is found again and can be stopped."""

from world import UID, World

from agentrl_operator.api import resource


async def test_a_run_deleted_right_after_its_status_was_lost_stops_its_later_phases():
    world = World()
    for _ in range(2):
        await world.reconcile(2)
        world.finish_phase()
    await world.reconcile(3)
    later = resource.run_id(UID, 2, 0)
    assert world.kfp.states[later] == "RUNNING"
    world.cluster.lose_status(world.key)
    world.cluster.delete(world.key, "2026-11-21T12:00:00Z")
    await world.reconcile()

    assert world.kfp.states[later] == "CANCELING"
    assert world.status["message"] == "deleting: the KFP run is being stopped"
    world.kfp.states[later] = "FAILED"  # as KFP says before the last pod has gone
    await world.reconcile()
    assert world.key in world.cluster.resources
    world.kfp.end(later, "FAILED")
    await world.reconcile()
    assert world.key not in world.cluster.resources


async def test_a_run_deleted_after_its_workflow_was_lost_does_not_wait():
    world = World()
    await world.reconcile(2)
    first = resource.run_id(UID, 0, 0)
    world.kfp.working.clear()
    world.kfp.states[first] = "CANCELING"  # for ever
    world.kfp.states[resource.run_id(UID, 0, 1)] = "RUNNING"
    world.cluster.lose_status(world.key)
    world.cluster.delete(world.key, "2026-11-21T12:00:00Z")
    await world.reconcile(2)

    assert world.key not in world.cluster.resources


async def test_a_lost_status_is_restored_without_starting_anything():
    world = World()
    for _ in range(2):
        await world.reconcile(2)
        world.finish_phase()
    await world.reconcile(3)
    assert world.status["phaseIndex"] == 2
    world.cluster.lose_status(world.key)
    world.restart()

    await world.reconcile(6)

    assert world.status["phaseIndex"] == 2
    assert len(world.kfp.submitted) == 3


async def test_a_suspension_after_a_lost_status_stops_later_phases():
    world = World()
    await world.reconcile(2)
    world.finish_phase()
    await world.reconcile(3)
    assert [one.parameters["phase"] for one in world.kfp.submitted] == [0, 1]
    world.cluster.lose_status(world.key)
    await world.apply("suspend")

    await world.reconcile(2)

    assert world.kfp.states[resource.run_id(UID, 1, 0)] == "CANCELING"
    world.stop_work()
    await world.reconcile()
    assert world.status["state"] == "Suspended"
