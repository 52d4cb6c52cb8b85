"""Runs whose pods cannot start, and objects of a run that somebody deleted while it works."""

from dataclasses import replace

import pytest
from world import World

from agentrl_operator.clients.pods import Pod

PROBLEM = 'CreateContainerConfigError: secret "demo-6a1b2c3d-token" not found'


async def pass_minutes(world, minutes):
    for _ in range(minutes):
        world.pass_time(60)
        await world.reconcile()


async def pass_hours(world, hours):
    for _ in range(hours):
        world.pass_time(3600)
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


async def test_a_used_up_quota_stops_no_run_that_needs_no_new_object():
    """Kubernetes refuses to create an object that exists, too: phases begin without asking."""
    phases = [{"maxTurns": turns, "iterations": 2} for turns in (2, 4, 8)]
    world = World(horizon={"phases": phases})
    await world.reconcile(3)
    world.cluster.quota_used_up = True
    for _ in range(10):  # longer than what somebody may have deleted is not looked for
        await pass_minutes(world, 1)
        assert world.conditions()["Progressing"] == ("True", "Running")
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"
    assert len(world.kfp.submitted) == 3


async def test_a_used_up_quota_is_told_to_a_run_that_needs_a_new_object():
    world = World()
    world.cluster.quota_used_up = True
    await world.reconcile(3)
    assert world.conditions()["Progressing"] == ("False", "KubernetesRefused")
    assert "exceeded quota" in world.status["message"]
    world.cluster.quota_used_up = False
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


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


IMAGE = 'ImagePullBackOff: Back-off pulling image "registry.test/agentrI:1"'
GATED = "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates"
BAD_NODE = "RunContainerError: runc: bad node"
CRASHES = "CrashLoopBackOff: OOMKilled"
SERVERS = "demo-6a1b2c3d-babyai"


def server_pod(problem="", environment="babyai"):
    return Pod(
        part=environment,
        run_id="",
        environment=environment,
        ended=False,
        ready=not problem,
        problem=problem,
        reason=problem.partition(":")[0],
    )


async def test_an_image_that_cannot_be_pulled_is_the_reason_of_a_run_and_fails_no_attempt():
    world, run_id = await running()
    world.cluster.pod_problems[run_id] = IMAGE
    await pass_minutes(world, 30)

    assert world.kfp.states[run_id] == "RUNNING"
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
    assert IMAGE in world.status["message"]
    assert [one[:2] for one in world.cluster.events].count(("Warning", "PodCannotStart")) == 1


async def test_time_in_the_queue_of_kueue_does_not_count_as_activity():
    world = World(activeDeadlineSeconds=900)
    await world.reconcile(3)
    (run_id,) = world.kfp.working
    world.cluster.pod_problems[run_id] = GATED
    await pass_minutes(world, 30)

    assert world.conditions()["Progressing"] == ("True", "Queued")
    assert world.status["activeSeconds"] == 60  # until it was first seen
    assert "activeTime" not in world.status
    world.cluster.pod_problems.clear()
    await pass_minutes(world, 14)
    assert world.conditions()["Progressing"] == ("True", "Running")
    await pass_minutes(world, 2)
    assert world.kfp.states[run_id] == "CANCELING"


async def test_one_server_of_many_that_cannot_start_stops_nothing():
    world = World(environments=[{"name": "babyai", "builtin": "babyai", "replicas": 32}])
    await world.reconcile(3)
    (run_id,) = world.kfp.working
    world.cluster.ready_servers[SERVERS] = 31
    world.cluster.server_pods = [*[server_pod()] * 31, server_pod(BAD_NODE)]
    await pass_minutes(world, 30)

    assert world.kfp.states[run_id] == "RUNNING"
    assert world.conditions()["Progressing"] == ("True", "Running")
    assert f"babyai: {BAD_NODE}" in world.status["message"]
    (ready,) = (o for o in world.status["conditions"] if o["type"] == "EnvironmentsReady")
    assert ready["message"] == f"babyai: 31 of 32 servers are ready; babyai: {BAD_NODE}"


async def test_an_attempt_fails_when_no_server_of_an_environment_can_start_for_long():
    two = [{"name": name, "builtin": "babyai"} for name in ("babyai", "rooms")]
    world = World(environments=two)
    await world.reconcile(3)
    (run_id,) = world.kfp.working
    world.cluster.ready_servers["demo-6a1b2c3d-rooms"] = 0
    world.cluster.server_pods = [server_pod(), server_pod(BAD_NODE, "rooms")]
    await pass_minutes(world, 4)
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
    assert world.kfp.states[run_id] == "RUNNING"
    await pass_minutes(world, 3)

    assert world.kfp.states[run_id] == "CANCELING"


async def test_a_server_that_is_being_replaced_is_no_problem():
    world, _ = await running()
    world.cluster.ready_servers[SERVERS] = 0
    world.cluster.server_pods = [replace(server_pod(BAD_NODE), terminating=True)]
    await pass_minutes(world, 2)
    assert world.conditions()["Progressing"] == ("True", "Running")
    assert BAD_NODE not in world.status["message"]


def blocked_runs(world, reason):
    samples = world.controller.metrics.registry
    return samples.get_sample_value("agentrl_runs_blocked", {"reason": reason})


async def starting(**spec):
    """A run none of whose servers is ready."""
    world = World(**spec)
    world.cluster.ready_servers[SERVERS] = 0
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "EnvironmentsStarting")
    return world


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (IMAGE, "PodCannotStart"),
        (PROBLEM, "PodCannotStart"),
        (CRASHES, "PodCannotStart"),
        ("Unschedulable: 0/1 nodes are available", "Unschedulable"),
        (GATED, "Queued"),
    ],
)
async def test_a_phase_waits_for_a_server_as_long_as_it_takes_and_says_why(problem, reason):
    world = await starting(backoffLimit=0)
    world.cluster.server_pods = [server_pod(problem)]
    await pass_hours(world, 12)

    assert world.kfp.submitted == []
    assert (world.status["state"], world.status["failures"]) == ("Pending", 0)
    assert world.conditions()["Progressing"] == ("True", reason)
    assert world.status["message"] == f"waiting for a server of babyai; babyai: {problem}"
    assert reason in [one[1] for one in world.cluster.events]
    assert ("activeTime" in world.status) == (reason != "Queued")
    assert blocked_runs(world, reason) == (None if reason == "Queued" else 1)

    world.cluster.ready_servers.clear()
    world.cluster.server_pods = [server_pod()]
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "Running")
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


QUOTA = 'FailedCreate: pods "demo-babyai-5d4-" is forbidden: exceeded quota: compute'
REFUSAL = 'pods "demo-impl-1" is forbidden: exceeded quota: compute, requested: pods=1'


async def test_a_run_whose_servers_kubernetes_does_not_create_says_so_and_counts_as_blocked():
    world = await starting()
    world.cluster.creation_problems[SERVERS] = QUOTA
    await pass_minutes(world, 2)

    assert world.conditions()["Progressing"] == ("True", "PodNotCreated")
    assert world.status["message"] == f"waiting for a server of babyai; {QUOTA}"
    assert ("Warning", "PodNotCreated") in [one[:2] for one in world.cluster.events]
    assert blocked_runs(world, "PodNotCreated") == 1

    world.cluster.creation_problems.clear()
    world.cluster.ready_servers.clear()
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_a_phase_whose_stage_kubernetes_does_not_create_waits_and_says_so():
    world, run_id = await running()
    world.cluster.refusals[run_id] = REFUSAL
    await pass_minutes(world, 30)

    assert world.conditions()["Progressing"] == ("True", "PodNotCreated")
    assert world.status["message"].endswith(REFUSAL)
    assert world.kfp.states[run_id] == "RUNNING"

    world.cluster.refusals.clear()
    await pass_minutes(world, 2)
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_a_phase_starts_with_one_ready_server_of_each_environment():
    two = [{"name": name, "builtin": "babyai", "replicas": 2} for name in ("babyai", "rooms")]
    world = await starting(environments=two)
    assert world.status["message"] == "waiting for a server of babyai"
    world.cluster.ready_servers = {SERVERS: 1, "demo-6a1b2c3d-rooms": 0}
    await world.reconcile()
    assert world.status["message"] == "waiting for a server of rooms"
    world.cluster.ready_servers["demo-6a1b2c3d-rooms"] = 1
    await world.reconcile()
    assert len(world.kfp.submitted) == 1
    assert world.conditions()["EnvironmentsReady"] == ("False", "Starting")


async def test_a_run_that_waits_for_a_server_keeps_its_deadline():
    world = await starting(activeDeadlineSeconds=600)
    await pass_minutes(world, 11)
    assert world.conditions()["Failed"] == ("True", "DeadlineExceeded")
    assert child(world, "Deployment") is None


async def test_a_run_that_waits_for_a_server_is_suspended_resumed_and_deleted():
    world = await starting()
    await world.apply("suspend")
    await world.reconcile(2)
    assert world.status["state"] == "Suspended"
    assert child(world, "Deployment") is None
    await world.apply("resume")
    await world.reconcile(3)
    assert world.conditions()["Progressing"] == ("True", "EnvironmentsStarting")
    assert world.kfp.submitted == []
    await world.delete_and_wait()
    assert world.key not in world.cluster.resources


async def test_a_token_secret_deleted_while_a_phase_waits_is_created_again():
    world = await starting()
    delete_child(world, "Secret")
    world.cluster.server_pods = [server_pod(PROBLEM)]
    await pass_minutes(world, 1)
    assert child(world, "Secret") is not None
    assert world.cluster.deleted_deployments == [SERVERS]
    assert child(world, "Deployment") is not None


async def test_a_retried_phase_waits_for_servers_that_cannot_start():
    """The attempt that lost its servers fails; the next one uses nothing until they are back."""
    world, run_id = await running()
    world.cluster.ready_servers[SERVERS] = 0
    world.cluster.server_pods = [server_pod(BAD_NODE)]
    await pass_minutes(world, 8)
    assert world.kfp.states[run_id] == "CANCELING"
    world.stop_work()
    await pass_hours(world, 12)

    assert len(world.kfp.submitted) == 1
    assert (world.status["state"], world.status["failures"]) == ("Running", 1)
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")


async def test_an_attempt_fails_when_its_only_server_crashes_again_and_again():
    world, run_id = await running()
    world.cluster.ready_servers[SERVERS] = 0
    world.cluster.server_pods = [server_pod(CRASHES)]
    delete_child(world, "Secret")
    await pass_minutes(world, 4)
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
    await pass_minutes(world, 3)
    assert child(world, "Secret") is None, "a crash does not end by another Secret"
    assert world.kfp.states[run_id] == "CANCELING"
    assert world.status["message"] == f"babyai: {CRASHES}; stopping the KFP run"


async def test_an_attempt_goes_on_while_its_only_server_crashes_and_recovers():
    world, run_id = await running()
    for _ in range(6):
        world.cluster.ready_servers[SERVERS] = 0
        world.cluster.server_pods = [server_pod(CRASHES)]
        await pass_minutes(world, 4)
        world.cluster.ready_servers.clear()
        await pass_minutes(world, 1)
    assert world.kfp.states[run_id] == "RUNNING"
    assert world.status["failures"] == 0
