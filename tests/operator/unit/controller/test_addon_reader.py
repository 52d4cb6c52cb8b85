"""What is read of a RayCluster, from the objects of KubeRay."""

import pytest
from queued_world import PLATFORM
from world import SPEC, UID

from agentrl_operator.api import resource
from agentrl_operator.api.status import Status
from agentrl_operator.controller.addon_reader import read_ray_cluster
from agentrl_operator.manifests import ray_cluster
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp
from agentrl_pipelines.labels import QUEUE_LABEL

BODY = {
    "apiVersion": "agentrl.dev/v1alpha1",
    "kind": "AgentRLRun",
    "metadata": {"name": "demo", "namespace": "kubeflow", "uid": UID},
    "spec": SPEC | {"compute": {"ray": "cluster", "samplers": {"count": 3}}},
}
RUN = resource.read(BODY, PLATFORM)
NAME = ray_cluster.name(RUN)
QUOTA = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreateWorkerPod",
    "message": f'FailedCreateWorkerPod\npods "{NAME}-samplers-" is forbidden: exceeded quota: gpus',
}
TOLD = f'FailedCreateWorkerPod: pods "{NAME}-samplers-" is forbidden: exceeded quota: gpus'


async def cluster(**status):
    """A cluster with the RayCluster of the run, which has this status."""
    made = MemoryCluster(MemoryKfp())
    await made.create(ray_cluster.manifest(RUN, RUN.run, PLATFORM, {}) | {"status": status})
    return made


async def test_pods_of_a_ray_cluster_that_cannot_be_created_are_its_problem():
    found = await read_ray_cluster(await cluster(conditions=[QUOTA]), RUN, Status())
    assert (found.problem, found.waits_for) == (TOLD, "PodNotCreated")


async def test_problems_of_pods_are_named_after_those_of_pods_that_do_not_exist():
    refusing = await cluster(conditions=[QUOTA])
    refusing.kuberay.ready, refusing.kuberay.problem = False, "ImagePullBackOff"
    found = await read_ray_cluster(refusing, RUN, Status())
    assert found.problem.startswith(f"{TOLD}; head: ImagePullBackOff; ")


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"conditions": [QUOTA | {"status": "False"}]},
        {"conditions": [{"type": "HeadPodReady", "status": "False", "reason": "HeadPodNotFound"}]},
    ],
)
async def test_a_ray_cluster_whose_pods_can_be_created_has_no_problem(status):
    found = await read_ray_cluster(await cluster(**status), RUN, Status())
    assert (found.problem, found.complete) == ("", True)


async def test_pods_that_are_being_deleted_are_not_ready():
    deleted = await cluster()
    deleted.kuberay.pods_linger = True
    await deleted.kuberay.delete_ray_cluster("kubeflow", NAME)
    found = await read_ray_cluster(deleted, RUN, Status())
    assert found.deleting
    assert found.ready == {}


async def test_a_pod_that_is_stuck_on_a_lost_node_is_the_problem_of_a_deleted_ray_cluster():
    deleted = await cluster()
    deleted.kuberay.pods_linger, deleted.kuberay.stuck = True, "NodeLost: pod a on node b"
    await deleted.kuberay.delete_ray_cluster("kubeflow", NAME)
    found = await read_ray_cluster(deleted, RUN, Status())
    assert found.problem.startswith("head: NodeLost: pod a on node b; ")


@pytest.mark.parametrize(
    ("labels", "problem", "queued"),
    [
        ({QUEUE_LABEL: "a"}, "suspended until Kueue admits it", True),
        ({}, "spec.suspend is set", False),
    ],
)
async def test_a_suspended_ray_cluster_is_queued_if_it_names_a_queue(labels, problem, queued):
    made = MemoryCluster(MemoryKfp())
    manifest = ray_cluster.manifest(RUN, RUN.run, PLATFORM, {})
    metadata = manifest["metadata"] | {"labels": manifest["metadata"]["labels"] | labels}
    spec = manifest["spec"] | {"suspend": True}
    await made.create(manifest | {"metadata": metadata, "spec": spec})
    made.kuberay.ready = False
    found = await read_ray_cluster(made, RUN, Status())
    assert (found.problem, found.queued, found.complete) == (problem, queued, False)
    assert found.waits_for == ("Queued" if queued else None)
