"""Runs whose pods cannot start, and objects of a run that somebody deleted while it works."""

from world import World

PROBLEM = 'CreateContainerConfigError: secret "demo-6a1b2c3d-token" not found'


async def pass_minutes(world, minutes):
    for _ in range(minutes):
        world.pass_time(60)
        await world.reconcile()


def child(world, kind):
    return next((one for (k, _, _), one in world.cluster.children.items() if k == kind), None)


def delete_child(world, kind):
    key = next(key for key in world.cluster.children if key[0] == kind)
    del world.cluster.children[key]


async def running():
    world = World()
    await world.reconcile(3)
    (run_id,) = world.kfp.working
    return world, run_id


async def test_a_token_secret_deleted_while_pods_need_it_is_created_again():
    world, run_id = await running()
    token = child(world, "Secret")
    delete_child(world, "Secret")
    world.cluster.pod_problems[run_id] = PROBLEM
    await pass_minutes(world, 1)

    assert child(world, "Secret")["data"] != token["data"]
    assert world.cluster.deleted_deployments == ["demo-6a1b2c3d-babyai"]
    assert child(world, "Deployment") is not None
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
    assert PROBLEM in world.status["message"]
    assert ("Warning", "PodCannotStart") in [one[:2] for one in world.cluster.events]
    world.cluster.pod_problems.clear()
    await pass_minutes(world, 1)
    assert world.conditions()["Progressing"] == ("True", "Running")
    assert (world.status["attempt"], world.status["failures"]) == (0, 0)


async def test_a_service_deleted_while_the_run_works_is_created_again():
    world, _ = await running()
    service, token = child(world, "Service"), child(world, "Secret")
    delete_child(world, "Service")
    await pass_minutes(world, 6)

    assert child(world, "Service") == service
    assert child(world, "Secret") == token
    assert world.cluster.deleted_deployments == []


async def test_an_attempt_fails_when_a_pod_cannot_start_for_long():
    world, run_id = await running()
    world.cluster.pod_problems[run_id] = PROBLEM
    await pass_minutes(world, 3)
    assert world.kfp.states[run_id] == "RUNNING"
    await pass_minutes(world, 4)

    assert world.kfp.states[run_id] == "CANCELING"
    assert world.status["message"] == f"train: {PROBLEM}; stopping the KFP run"
    world.stop_work()
    await world.reconcile()
    assert (world.status["attempt"], world.status["failures"]) == (1, 1)
    assert PROBLEM in world.status["message"]
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_a_pod_that_cannot_start_for_a_short_time_fails_nothing():
    world, run_id = await running()
    for _ in range(4):
        world.cluster.pod_problems[run_id] = PROBLEM
        await pass_minutes(world, 3)
        world.cluster.pod_problems.clear()
        await pass_minutes(world, 2)

    assert world.kfp.states[run_id] == "RUNNING"
    assert world.status["failures"] == 0


async def test_a_pod_that_fits_on_no_node_is_the_reason_of_the_run():
    world, run_id = await running()
    world.cluster.pod_problems[run_id] = (
        "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu"
    )
    world.pass_time(20)
    await world.reconcile()

    assert world.conditions()["Progressing"] == ("True", "Unschedulable")
    assert "1 Insufficient cpu" in world.status["message"]
