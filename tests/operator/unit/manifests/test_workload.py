"""The Workload of a run and the patches of its status."""

from datetime import UTC, datetime

import pytest
from queued_world import NAME, PLATFORM, QueuedWorld
from world import UID

from agentrl_components.spec import parse
from agentrl_operator.api import resource
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import workload, workload_status
from agentrl_pipelines.platform.kueue_pods import PodSetInfo


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


def test_a_workload_requests_the_trainer_and_every_server():
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
            "gpus": 1,
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    )

    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
    requests = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
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


def test_disaggregated_rollout_and_update_are_two_pod_sets():
    made = asked(
        environments=[{"name": "babyai", "url": "http://babyai.test"}],
        compute={"queue": "training", "placement": "disaggregated"},
    )

    assert [one["name"] for one in made["spec"]["podSets"]] == ["rollout", "update"]


def test_the_longest_names_and_the_most_environments_fit_a_workload():
    names = [f"{'x' * 38}{chr(97 + n)}" for n in range(16)]
    made = asked(
        environments=[{"name": name, "builtin": "babyai"} for name in names],
        compute={"queue": "training", "placement": "disaggregated"},
    )

    assert [(one["name"], one["count"]) for one in made["spec"]["podSets"]] == [
        ("rollout", 1),
        ("update", 1),
        (f"environment-{names[0]}", 16),
    ]
    assert max(len(one["name"]) for one in made["spec"]["podSets"]) <= 63


def test_environments_that_request_the_same_share_a_pod_set():
    made = asked(
        environments=[
            {"name": "a", "builtin": "babyai", "replicas": 0},
            {"name": "b", "builtin": "babyai", "cpu": "0.5", "memory": "1Gi", "replicas": 3},
            {"name": "c", "builtin": "babyai", "cpu": "500m", "memory": "2Gi"},
            {"name": "d", "builtin": "corridor", "cpu": "500m", "memory": "1024Mi", "replicas": 4},
            {"name": "e", "builtin": "babyai", "memory": "2Gi", "cpu": "0.5", "scaling": {}},
        ],
        compute={"queue": "training"},
    )

    _, *served = made["spec"]["podSets"]
    assert [(one["name"], one["count"]) for one in served] == [
        ("environment-b", 7),
        ("environment-c", 9),  # one, and the most that `scaling` allows
    ]
    requests = [one["template"]["spec"]["containers"][0]["resources"]["requests"] for one in served]
    assert requests == [{"cpu": "0.5", "memory": "1Gi"}, {"cpu": "500m", "memory": "2Gi"}]


def test_pending_admission_checks_are_named():
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
    assert seen.message == "waiting for admission checks: nodes: asking for two nodes"


def test_the_updates_of_all_admission_checks_are_merged():
    room = {
        "name": "train",
        "annotations": {"consume-provisioning-request": "room-1"},
        "nodeSelector": {"pool": "bought", "kind": "spot"},
        "tolerations": [{"key": "bought", "operator": "Exists"}],
    }
    budget = {"name": "train", "labels": {"cost-center": "7"}, "nodeSelector": {"kind": "owned"}}
    body = {
        "metadata": {"name": NAME},
        "status": {
            "admissionChecks": [
                {"name": "room", "state": "Ready", "podSetUpdates": [room]},
                {"name": "budget", "state": "Ready", "podSetUpdates": [budget, {"name": "other"}]},
                {"name": "nothing", "state": "Ready"},
            ],
        },
    }

    assert workload.read(body).check_updates == {
        "train": PodSetInfo(
            node_selector={"pool": "bought", "kind": "owned"},
            tolerations=({"key": "bought", "operator": "Exists"},),
            pod_labels={"cost-center": "7"},
            pod_annotations={"consume-provisioning-request": "room-1"},
        ),
        "other": PodSetInfo(),
    }


def test_the_patch_after_an_eviction_releases_the_quota_as_kueue_expects():
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
    change = workload_status.status_patch(body, "stopped", noon)

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
    assert workload_status.status_patch(after, "stopped", noon) is None


async def test_a_concurrent_write_of_kueue_is_not_overwritten():
    world = QueuedWorld()
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile()
    old = dict(world.workload["metadata"])
    world.kueue.evict()
    stale = {"metadata": old, "status": {"conditions": []}}
    with pytest.raises(KubernetesError) as caught:
        await world.kueue.patch_workload_status("kubeflow", NAME, stale)

    assert caught.value.status == 409
    assert world.holds("Evicted")
