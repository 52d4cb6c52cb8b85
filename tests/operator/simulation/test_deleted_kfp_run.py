"""A KFP run that somebody deletes in KFP is submitted again when its pods have ended."""

from world import World


async def test_a_deleted_kfp_run_is_submitted_again_when_its_pods_have_ended():
    world = World()
    await world.reconcile(2)
    (run_id,) = world.kfp.working
    world.kfp.delete(run_id)
    for _ in range(3):
        world.pass_time(61)
        await world.reconcile()
    assert len(world.kfp.submitted) == 1
    assert world.status["message"] == "the KFP run was deleted; waiting for 1 pods to end"
    assert world.conditions()["Progressing"] == ("True", "Stopping")

    world.stop_work()
    await world.reconcile()
    assert [one.run_id for one in world.kfp.submitted] == [run_id, run_id]
    assert world.status["attempt"] == 0
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_it_is_so_with_a_lost_status_too():
    world = World()
    await world.reconcile(2)
    (run_id,) = world.kfp.working
    world.kfp.delete(run_id)
    world.cluster.lose_status(world.key)
    await world.reconcile(2)
    assert len(world.kfp.submitted) == 1

    world.stop_work()
    await world.run_to_end()
    assert [one.run_id for one in world.kfp.submitted][:2] == [run_id, run_id]
