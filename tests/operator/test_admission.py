"""Runs that Kueue admits as a whole, in a world in memory."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_world import EVENTS, UID, World

from agentrl_components.spec import parse
from agentrl_operator import news, resource, workload
from agentrl_operator.errors import KubernetesError
from agentrl_pipelines.platform import Kueue, Mlflow, Platform

PLATFORM = Platform(tracking=Mlflow(uri="http://mlflow.test"), kueue=Kueue(admission="run"))
PODS = Platform(tracking=Mlflow(uri="http://mlflow.test"))
NAME = "demo-6a1b2c3d-workload"
KUEUE_EVENTS = ("admit", "admit", "evict", "preempted for a node", "deactivate", "activate")


class QueuedWorld(World):
    """A run that names a queue, where Kueue admits whole runs."""

    def __init__(self, **spec):
        super().__init__(PLATFORM, compute={"queue": "training"}, **spec)

    @property
    def queued(self):
        found = self.cluster.resources.get(self.key)
        return found is not None and "queue" in found["spec"]["compute"]

    @property
    def kueue(self):
        return self.cluster.kueue

    @property
    def workload(self):
        return self.kueue.get("kubeflow", NAME)

    def holds(self, kind):
        return self.workload is not None and workload.holds(self.workload, kind)

    async def look(self, times=1):
        for _ in range(times):
            admitted = self.holds("Admitted") and not self.holds("Evicted")
            may_start = admitted or not self.queued
            before = len(self.kfp.submitted), set(self.cluster.servers(UID))
            await super().look()
            assert may_start or before[0] == len(self.kfp.submitted), "started, not admitted"
            assert may_start or set(self.cluster.servers(UID)) <= before[1], "served, not admitted"

    def check(self):
        super().check()
        if self.kfp.working and self.workload is not None:
            assert self.holds("QuotaReserved"), "quota was given back from under work"
            assert not self.holds("Finished")

    async def happens(self, event):
        match event:
            case "admit":
                self.kueue.admit()
            case "evict":
                self.kueue.evict()
            case "preempted for a node":
                self.kueue.evict("NodeFailures", "a node broke")
            case "deactivate":
                self.kueue.activate(False)
            case "activate":
                self.kueue.activate(True)
            case _:
                await super().happens(event)

    def goes_well(self):
        self.kueue.activate(True)
        self.kueue.admit()


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=50))
def test_whatever_happens_nothing_starts_before_admission_and_the_run_succeeds(events):
    async def story():
        world = QueuedWorld()
        await world.through(events)
        await world.to_the_end()
        assert world.status["phase"] == "Succeeded", world.status
        assert [one.parameters["phase"] for one in world.kfp.submitted][-1] == 2
        await world.look(3)
        assert world.cluster.servers(UID) == {}
        assert not world.kfp.working
        assert world.workload is None or world.holds("Finished")

    asyncio.run(story())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=30))
def test_looking_twice_tells_kueue_what_looking_once_does(events):
    async def story():
        world = QueuedWorld()
        for event in events:
            await world.happens(event)
        for _ in range(12):  # as long as there is anything to do at once
            await world.look()

        def shown():
            return (
                list(world.kfp.submitted),
                dict(world.kfp.states),
                {name: str(child) for name, child in world.cluster.children.items()},
            )

        before, told = shown(), world.cluster.told
        await world.look(2)
        assert before == shown()
        assert world.cluster.told == told

    asyncio.run(story())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(EVENTS + KUEUE_EVENTS), max_size=30))
def test_a_deleted_run_leaves_no_workload(events):
    async def story():
        world = QueuedWorld(storage={"onDelete": "delete"})
        await world.through(events)
        await world.deleted()
        assert world.key not in world.cluster.resources
        assert not world.kfp.working
        assert world.workload is None

    asyncio.run(story())


async def test_a_run_waits_in_the_queue_and_says_what_kueue_says():
    world = QueuedWorld()
    await world.look(2)

    assert world.workload["spec"]["queueName"] == "training"
    assert world.kfp.submitted == []
    assert world.cluster.servers(UID) == {}
    assert world.status["phase"] == "Pending"
    assert world.conditions()["Admitted"] == ("False", "Queued")
    assert world.conditions()["Progressing"] == ("False", "Queued")
    assert world.status["message"] == "in the queue: waiting for Kueue"

    world.kueue.admit()
    await world.look(2)

    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Admitted"] == ("True", "Admitted")
    assert world.status["phase"] == "Running"
    assert world.holds("PodsReady")  # or Kueue would evict it after half an hour


async def test_an_evicted_run_stops_gives_back_and_goes_on_without_a_failure():
    world = QueuedWorld(backoffLimit=0)
    await world.look()
    for _ in range(3):
        world.kueue.admit()
        await world.look(3)
        world.kueue.evict()
        await world.look()
        assert world.conditions()["Admitted"] == ("False", "Evicted")
        assert world.holds("QuotaReserved")
        world.stop_work()
        await world.look(4)
        assert world.cluster.servers(UID) == {}
        assert not world.holds("QuotaReserved")
        assert world.holds("Requeued")
        assert "admission" not in world.workload["status"]
        assert not world.holds("Admitted")
        assert not world.holds("PodsReady")
    await world.to_the_end()

    assert world.status["phase"] == "Succeeded"
    assert world.status["failures"] == 0
    attempts = [(one.parameters["phase"], one.parameters["attempt"]) for one in world.kfp.submitted]
    assert attempts == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (2, 0)]


async def test_the_clock_of_the_deadline_stands_still_in_the_queue():
    world = QueuedWorld(activeDeadlineSeconds=3600)
    await world.look()
    world.kueue.admit()
    await world.look(2)
    world.pass_time(600)
    world.kueue.evict()
    await world.look()
    world.stop_work()
    await world.look(3)
    world.pass_time(7200)
    await world.look()

    assert world.status["activeSeconds"] == 600
    world.kueue.admit()
    await world.look(2)
    assert world.status["phase"] == "Running"


async def test_a_deactivated_run_stays_out_of_the_queue_until_it_is_activated():
    world = QueuedWorld()
    await world.look()
    world.kueue.admit()
    await world.look(2)
    world.kueue.activate(False)
    await world.look()
    world.stop_work()
    await world.look(3)
    world.kueue.admit()
    await world.look()

    assert not world.holds("QuotaReserved")
    assert not world.holds("Requeued")  # Kueue's to say, once it is active again
    assert world.status["message"] == "in the queue: The workload is deactivated"
    world.kueue.activate(True)
    world.kueue.admit()
    await world.look(2)
    assert [one.parameters["attempt"] for one in world.kfp.submitted] == [0, 1]


async def test_a_suspended_run_leaves_the_queue():
    world = QueuedWorld()
    await world.look()
    world.kueue.admit()
    await world.look(2)
    await world.happens("suspend")
    await world.look()
    assert world.workload is not None
    world.stop_work()
    await world.look(3)

    assert world.workload is None
    assert world.conditions()["Admitted"] == ("False", "Suspended")
    await world.happens("resume")
    await world.look(2)
    assert world.conditions()["Admitted"] == ("False", "Queued")


async def test_a_run_that_is_over_has_a_finished_workload():
    world = QueuedWorld()
    await world.to_the_end()
    await world.look(3)

    finished = [one for one in world.workload["status"]["conditions"] if one["type"] == "Finished"]
    assert [(one["status"], one["reason"]) for one in finished] == [("True", "Succeeded")]


async def test_a_run_that_asks_for_more_queues_again():
    world = QueuedWorld()
    await world.look()
    world.kueue.admit()
    await world.look(2)
    world.cluster.edit(world.key, compute={"queue": "training", "cpu": "8"})
    await world.look()
    world.stop_work()
    await world.look(4)

    assert not world.holds("QuotaReserved")
    asked = world.workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    assert asked["resources"]["requests"]["cpu"] == "8"


async def test_a_run_that_leaves_its_queue_goes_on_without_one():
    world = QueuedWorld()
    await world.look()
    world.cluster.edit(world.key, compute={})
    await world.look(3)

    assert world.workload is None
    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Admitted"] == ("True", "NotQueued")


async def test_where_kueue_admits_pods_there_is_no_workload():
    world = World(PODS, compute={"queue": "training"})
    await world.look(2)

    assert len(world.kfp.submitted) == 1
    assert [kind for kind, _, _ in world.cluster.children] == ["Secret", "Service", "Deployment"]
    assert "Admitted" not in world.conditions()


def asked(**spec):
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": "demo", "namespace": "kubeflow"},
    }
    horizon = {"phases": [{"maxTurns": 3, "iterations": 2}]}
    manifest = body | {"spec": {"horizon": horizon} | spec}
    one = resource.read(manifest | {"metadata": body["metadata"] | {"uid": UID}}, PLATFORM)
    assert one.run is not None, one.mistakes
    return workload.manifest(one, parse(manifest))


def test_a_workload_asks_for_the_trainer_and_every_server():
    made = asked(
        environments=[
            {"name": "babyai", "builtin": "babyai", "replicas": 3},
            {"name": "inside", "builtin": "babyai", "replicas": 0},
            {"name": "elsewhere", "url": "http://elsewhere.test"},
        ],
        compute={
            "queue": "training",
            "cpu": "4",
            "memory": "8Gi",
            "gpus": 2,
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    )

    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
    requests = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    served = {"cpu": "250m", "memory": "256Mi"}
    assert made["spec"] == {
        "queueName": "training",
        "podSets": [
            {
                "name": "train",
                "count": 1,
                "template": {
                    "spec": {
                        "containers": [{"name": "main", "resources": {"requests": requests}}],
                        "nodeSelector": {"gpu": "h100"},
                        "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    }
                },
            },
            {
                "name": "environment-babyai",
                "count": 3,
                "template": {
                    "spec": {"containers": [{"name": "main", "resources": {"requests": served}}]}
                },
            },
        ],
    }


def test_apart_rollout_and_update_are_asked_for_side_by_side():
    made = asked(
        environments=[{"name": "babyai", "url": "http://babyai.test"}],
        compute={"queue": "training", "placement": "disaggregated"},
    )

    assert [one["name"] for one in made["spec"]["podSets"]] == ["rollout", "update"]


def test_the_longest_names_and_the_most_environments_fit_into_a_workload():
    names = [f"{'x' * 38}{chr(97 + n)}" for n in range(16)]
    made = asked(
        environments=[{"name": name, "builtin": "babyai"} for name in names],
        compute={"queue": "training", "placement": "disaggregated"},
    )

    assert len(made["spec"]["podSets"]) == 18  # as many as Kueue takes
    assert max(len(one["name"]) for one in made["spec"]["podSets"]) <= 63


def test_checks_that_are_not_done_are_named():
    body = {
        "metadata": {"name": NAME},
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "message": "Quota reserved in all"}
            ],
            "admissionChecks": [
                {"name": "nodes", "state": "Pending", "message": "asking for two nodes"},
                {"name": "budget", "state": "Ready"},
            ],
        },
    }

    seen = workload.read(body)
    assert (seen.reserved, seen.admitted) == (True, False)
    assert seen.says == "waiting for admission checks: nodes: asking for two nodes"


def test_what_gives_the_quota_back_after_an_eviction_is_what_kueue_expects():
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def said(kind, status, reason):
        stamp = {"lastTransitionTime": "2026-11-21T11:59:00Z", "observedGeneration": 1}
        return {"type": kind, "status": status, "reason": reason, "message": reason} | stamp

    body = {
        "metadata": {"name": NAME, "resourceVersion": "7", "generation": 2},
        "status": {
            "admission": {"clusterQueue": "team"},
            "accumulatedPastExecutionTimeSeconds": 30,
            "conditions": [
                said("QuotaReserved", "True", "QuotaReserved"),
                said("Admitted", "True", "Admitted"),
                said("Evicted", "True", "ClusterQueueStopped"),
            ],
        },
    }
    change = news.told(body, "stopped", noon)

    assert change["metadata"] == {"resourceVersion": "7"}
    assert change["status"]["admission"] is None
    assert change["status"]["accumulatedPastExecutionTimeSeconds"] == 90
    assert [
        (one["type"], one["status"], one["reason"]) for one in change["status"]["conditions"]
    ] == [
        ("Evicted", "True", "ClusterQueueStopped"),
        ("Requeued", "False", "ClusterQueueStopped"),  # Kueue's to change, with the queue
        ("QuotaReserved", "False", "Pending"),
        ("Admitted", "False", "NoReservation"),
    ]
    assert change["status"]["conditions"][2]["lastTransitionTime"] == "2026-11-21T12:00:00Z"
    after = body | {"status": change["status"]}
    assert news.told(after, "stopped", noon) is None


async def test_what_kueue_wrote_meanwhile_is_not_written_over():
    world = QueuedWorld()
    await world.look()
    world.kueue.admit()
    await world.look()
    old = dict(world.workload["metadata"])
    world.kueue.evict()
    stale = {"metadata": old, "status": {"conditions": []}}
    with pytest.raises(KubernetesError) as caught:
        await world.kueue.tell("kubeflow", NAME, stale)

    assert caught.value.status == 409
    assert world.holds("Evicted")
