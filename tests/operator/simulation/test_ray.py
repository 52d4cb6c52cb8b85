"""Runs that own a Ray cluster, simulated in memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queued_world import KUEUE_EVENTS, PLATFORM, QueuedWorld
from world import EVENTS, World

RAY = {"ray": "cluster", "trainers": {"count": 4, "perPod": 2}, "samplers": {"count": 3}}
RAY_EVENTS = (
    "pods gone",
    "pods ready",
    "pods linger",
    "pods ended",
    "ray cluster deleted",
    ("kuberay", "delete_ray_cluster"),
)


class RayEvents:
    """Events of a Ray cluster, and what holds with it at any time."""

    @property
    def rays(self):
        return self.cluster.kuberay.clusters()

    async def reconcile(self, times=1):
        for _ in range(times):
            kept = [one for one in self.rays if "deletionTimestamp" not in one["metadata"]]
            ready = bool(kept) and self.cluster.kuberay.ready
            submitted = len(self.kfp.submitted)
            await super().reconcile()
            assert ready or len(self.kfp.submitted) == submitted, "started without its Ray cluster"

    async def apply(self, event):
        match event:
            case "pods gone":
                self.cluster.kuberay.ready = False
            case "pods ready":
                self.cluster.kuberay.ready = True
            case "pods linger":
                self.cluster.kuberay.pods_linger = True
            case "pods ended":
                self.cluster.kuberay.end_pods()
            case "ray cluster deleted":
                self.cluster.children.clear()
            case _:
                await super().apply(event)

    def let_others_act(self):
        super().let_others_act()
        self.cluster.kuberay.ready = True
        self.cluster.kuberay.end_pods()


class RayWorld(RayEvents, World):
    def __init__(self, **spec):
        super().__init__(**{"compute": RAY} | spec)


class QueuedRayWorld(RayEvents, QueuedWorld):
    def __init__(self):
        World.__init__(self, PLATFORM, compute=RAY | {"queue": "training"})


async def at_work():
    world = RayWorld()
    await world.reconcile(3)
    assert len(world.kfp.submitted) == 1
    return world


@settings(max_examples=60)
@given(st.lists(st.sampled_from(EVENTS + RAY_EVENTS), max_size=40))
def test_with_any_events_the_run_succeeds_and_its_ray_cluster_is_gone(events):
    async def story():
        world = RayWorld()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        await world.reconcile(3)
        assert world.rays == []
        assert "ray" not in world.status

    asyncio.run(story())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS + RAY_EVENTS), max_size=40))
def test_with_any_events_a_queued_run_has_a_ray_cluster_only_while_it_is_admitted(events):
    async def story():
        world = QueuedRayWorld()
        await world.apply_all(events)
        await world.run_to_end()
        assert world.status["state"] == "Succeeded", world.status
        await world.reconcile(3)
        assert world.rays == []
        assert world.workload is None or world.holds("Finished")

    asyncio.run(story())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(EVENTS + RAY_EVENTS), max_size=30))
def test_with_any_events_a_deleted_run_leaves_no_ray_cluster(events):
    async def story():
        world = RayWorld()
        await world.apply_all(events)
        await world.delete_and_wait()
        world.cluster.kuberay.end_pods()
        assert world.key not in world.cluster.resources
        assert world.rays == []

    asyncio.run(story())


async def passes_minutes(world, minutes):
    for _ in range(minutes):
        world.pass_time(60)
        await world.reconcile()


async def test_time_of_a_cluster_that_kueue_has_suspended_does_not_count_as_activity():
    world = RayWorld(compute=RAY | {"queue": "a"}, activeDeadlineSeconds=3600)
    world.cluster.kuberay.suspended = True
    await world.reconcile(3)
    await passes_minutes(world, 120)
    assert world.kfp.submitted == []
    assert world.conditions()["Progressing"] == ("True", "Queued")
    assert world.status["message"] == (
        "waiting for the Ray cluster: trainers 0/4, samplers 0/3; suspended until Kueue admits it"
    )
    assert (world.status["state"], world.status.get("activeTime")) == ("Pending", None)
    world.cluster.kuberay.suspended = False
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_a_cluster_that_kueue_suspends_in_a_phase_is_the_reason_of_the_run():
    world = RayWorld(compute=RAY | {"queue": "a"})
    await world.reconcile(3)
    world.cluster.kuberay.suspended = True
    await passes_minutes(world, 10)
    assert world.conditions()["Progressing"] == ("True", "Queued")
    assert world.status["message"].endswith(
        "waiting for the Ray cluster: suspended until Kueue admits it"
    )
    assert "activeTime" in world.status  # the stage holds its pod
    assert len(world.kfp.working) == 1
    world.cluster.kuberay.suspended = False
    await world.reconcile()
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_time_of_a_cluster_whose_pods_all_wait_in_the_queue_does_not_count_as_activity():
    world = RayWorld(activeDeadlineSeconds=3600)
    world.cluster.kuberay.ready = False
    world.cluster.kuberay.problem = "SchedulingGated: blocked due to non-empty scheduling gates"
    await world.reconcile(3)
    await passes_minutes(world, 120)
    assert world.conditions()["Progressing"] == ("True", "Queued")
    assert "activeTime" not in world.status


def test_the_cluster_is_complete_before_the_first_phase_and_stays_over_the_phases():
    async def story():
        world = RayWorld()
        world.cluster.kuberay.ready = False
        world.cluster.kuberay.problem = "ImagePullBackOff"
        await world.reconcile(3)
        (made,) = world.rays
        assert world.kfp.submitted == []
        assert world.status["ray"]["workers"] == "trainers 0/4, samplers 0/3"
        assert world.conditions()["RayClusterReady"] == ("False", "Starting")
        assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
        assert world.status["message"] == (
            "waiting for the Ray cluster: trainers 0/4, samplers 0/3; head: ImagePullBackOff; "
            "trainers: ImagePullBackOff; samplers: ImagePullBackOff"
        )
        world.cluster.kuberay.ready = True
        await world.reconcile(2)
        assert world.conditions()["RayClusterReady"] == ("True", "Ready")
        assert world.status["ray"] == {
            "cluster": "demo-6a1b2c3d-ray",
            "workers": "trainers 4/4, samplers 3/3",
            "dashboardUrl": "http://demo-6a1b2c3d-ray-head-svc.kubeflow.svc:8265",
            "metricsUrl": "http://demo-6a1b2c3d-ray-head-svc.kubeflow.svc:8080",
        }
        for phase in range(2):
            assert [one.parameters["phase"] for one in world.kfp.submitted][-1] == phase
            world.finish_phase()
            await world.reconcile(2)
        assert world.rays == [made]

    asyncio.run(story())


def test_a_worker_that_is_lost_in_a_phase_leaves_the_phase_alone():
    async def story():
        world = await at_work()
        world.cluster.kuberay.ready = False
        await world.reconcile(2)
        assert world.conditions()["RayClusterReady"] == ("False", "Starting")
        assert world.conditions()["Progressing"] == ("True", "Running")
        assert len(world.kfp.working) == 1

    asyncio.run(story())


def test_suspension_deletes_the_cluster_after_the_work_and_resumption_makes_another():
    async def story():
        world = await at_work()
        await world.apply("suspend")
        await world.reconcile()
        assert len(world.rays) == 1, "deleted under its drivers"
        world.stop_work()
        await world.reconcile(3)
        assert world.rays == []
        assert world.conditions()["RayClusterReady"] == ("False", "ScaledDown")
        assert "ray" not in world.status
        await world.apply("resume")
        await world.reconcile(3)
        assert len(world.rays) == 1
        assert len(world.kfp.submitted) == 2

    asyncio.run(story())


def test_a_suspended_run_gives_back_its_quota_after_its_ray_cluster_is_gone():
    async def story():
        world = QueuedRayWorld()
        await world.reconcile(2)
        world.kueue.admit()
        await world.reconcile(3)
        assert len(world.rays) == 1
        await world.apply("pods linger")
        await world.apply("suspend")
        await world.reconcile()
        world.stop_work()
        await world.reconcile(3)
        assert world.workload is not None, "its pods have not ended"
        await world.apply("pods ended")
        await world.reconcile(3)
        assert (world.rays, world.workload) == ([], None)

    asyncio.run(story())


def test_without_kuberay_a_condition_names_the_field_and_the_fix():
    async def story():
        world = RayWorld()
        world.cluster.kuberay.installed = False
        await world.reconcile(3)
        assert world.conditions()["RayClusterReady"] == ("False", "KubeRayUnavailable")
        assert world.conditions()["Progressing"] == ("False", "KubeRayUnavailable")
        assert world.status["message"] == (
            "spec.compute.ray: cluster needs KubeRay, and this Kubernetes does not serve "
            "ray.io/v1; install KubeRay 1.6, or set the field to embedded"
        )
        assert world.kfp.submitted == []
        world.cluster.kuberay.installed = True
        await world.reconcile(3)
        assert len(world.kfp.submitted) == 1

    asyncio.run(story())


def test_no_phase_starts_while_pods_of_the_replaced_cluster_end():
    async def story():
        world = await at_work()
        world.cluster.edit(world.key, compute=RAY | {"samplers": {"count": 5}})
        await world.apply("pods linger")
        world.finish_phase()
        await world.reconcile(4)
        assert "deletionTimestamp" in world.rays[0]["metadata"]
        assert world.status["message"] == "replacing the Ray cluster"
        assert len(world.kfp.submitted) == 1
        world.cluster.kuberay.stuck = "NodeLost: pod a on node b"
        await world.reconcile()
        assert "replacing the Ray cluster; head: NodeLost: pod a on" in world.status["message"]
        await world.apply("pods ended")
        await world.reconcile(3)
        assert len(world.kfp.submitted) == 2

    asyncio.run(story())


def test_a_suspended_run_names_a_pod_of_its_ray_cluster_that_does_not_end():
    async def story():
        world = await at_work()
        await world.apply("suspend")
        await world.reconcile()
        world.stop_work()
        await world.apply("pods linger")
        world.cluster.kuberay.stuck = "NodeLost: pod a on node b"
        await world.reconcile(3)
        (shown,) = (one for one in world.status["conditions"] if one["type"] == "RayClusterReady")
        assert shown["reason"] == "ScaledDown"
        assert "head: NodeLost: pod a on node b" in shown["message"]

    asyncio.run(story())


def test_a_changed_cluster_is_replaced_between_two_phases():
    async def story():
        world = await at_work()
        (before,) = world.rays
        world.cluster.edit(world.key, compute=RAY | {"samplers": {"count": 5}})
        await world.reconcile(2)
        assert world.rays == [before], "replaced under its drivers"
        world.finish_phase()
        await world.reconcile(4)
        (after,) = world.rays
        assert [one["replicas"] for one in after["spec"]["workerGroupSpecs"]] == [2, 5]
        assert len(world.kfp.submitted) == 2

    asyncio.run(story())


BLOCKED = 'CreateContainerConfigError: secret "missing" not found'


async def blocked_for(world, minutes):
    for _ in range(minutes):
        world.pass_time(60)
        await world.reconcile(2)


CRASHES = "CrashLoopBackOff: exit code 1"


async def never_ready(problem=BLOCKED, **spec):
    world = RayWorld(**spec)
    world.cluster.kuberay.ready = False
    world.cluster.kuberay.problem = problem
    await world.reconcile(3)
    return world


@pytest.mark.parametrize("problem", [BLOCKED, CRASHES])
async def test_an_attempt_whose_ray_cluster_cannot_start_has_failed_after_five_minutes(problem):
    world = await never_ready(problem)
    assert world.conditions()["Progressing"] == ("True", "PodCannotStart")
    assert problem in world.status["message"]
    await blocked_for(world, 4)
    assert world.status["failures"] == 0
    await blocked_for(world, 2)
    assert (world.status["failures"], world.status["attempt"]) == (1, 0)
    assert [one for one in world.cluster.events if one[1] == "PodCannotStart"]
    await world.run_to_end()
    assert world.status["state"] == "Succeeded"


async def test_a_ray_cluster_that_never_starts_ends_the_run():
    world = await never_ready(backoffLimit=1)
    await blocked_for(world, 20)

    assert world.status["state"] == "Failed"
    assert world.conditions()["Failed"] == ("True", "BackoffLimitExceeded")
    assert BLOCKED in world.status["message"]
    assert world.rays == []
    assert world.kfp.submitted == []


async def test_a_ray_pod_that_cannot_start_for_a_short_time_fails_nothing():
    world = await never_ready()
    for _ in range(3):
        world.cluster.kuberay.problem = BLOCKED
        await blocked_for(world, 3)
        world.cluster.kuberay.problem = ""
        await blocked_for(world, 2)
    assert world.status["failures"] == 0


async def test_a_token_that_pods_of_ray_wait_for_is_created_again():
    world = await never_ready()
    key = next(key for key in world.cluster.children if key[0] == "Secret")
    del world.cluster.children[key]
    world.pass_time(60)
    await world.reconcile()
    assert key in world.cluster.children


@pytest.mark.parametrize(("problem", "restored"), [(BLOCKED, True), (CRASHES, False)])
async def test_objects_are_created_again_for_ray_pods_that_may_lack_one(problem, restored):
    world = await never_ready(problem)
    count, applied = "agentrl_operator_actions_total", {"action": "apply_environment"}
    samples = world.controller.metrics.registry
    before = samples.get_sample_value(count, applied)
    world.pass_time(60)
    await world.reconcile(5)  # once a minute, however often the run is reconciled
    assert samples.get_sample_value(count, applied) == before + restored
