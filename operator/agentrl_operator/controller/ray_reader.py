"""Reads the RayCluster of a run, and which of its pods are ready."""

from __future__ import annotations

from collections import Counter

from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.pods import problem_summary
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import ray_cluster
from agentrl_operator.manifests.labels import FINGERPRINT
from agentrl_operator.planning.observation import RayCluster, Unknown, may_have_ray_cluster

CLUSTER_LABEL = "ray.io/cluster"
"""KubeRay's label of the pods of a RayCluster."""
NOT_INSTALLED = (
    "spec.compute.ray: cluster needs KubeRay, and this Kubernetes does not serve ray.io/v1; "
    "install KubeRay 1.6, or set the field to embedded"
)


async def read_ray_cluster(
    cluster: Cluster, resource: Resource, status: Status
) -> RayCluster | Unknown | None:
    """The RayCluster of a run. None: it does not exist, or the run has none. Unknown: KubeRay is
    not installed, or Kubernetes refuses to show it.

    Raises:
        KubernetesError: A request failed and may succeed later without anybody acting.
    """
    if not may_have_ray_cluster(resource, status):
        return None
    name = ray_cluster.name(resource)
    try:
        body = await cluster.kuberay.get_ray_cluster(resource.namespace, name)
        if body is None:
            installed = await cluster.kuberay.is_installed()
            return None if installed else Unknown(message=NOT_INSTALLED)
        pods = await cluster.list_pods(resource.namespace, CLUSTER_LABEL, (name,))
    except KubernetesError as error:
        if error.retryable:
            raise
        return Unknown(message=str(error))
    metadata = body["metadata"]
    groups = {one["groupName"]: one["replicas"] for one in body["spec"]["workerGroupSpecs"]}
    ready = Counter(pod.part for pod in pods if pod.ready and not pod.ended)
    return RayCluster(
        manifest=metadata.get("annotations", {}).get(FINGERPRINT, ""),
        deleting="deletionTimestamp" in metadata,
        wanted={ray_cluster.HEAD: 1, **groups},
        ready=ready,
        problem=problem_summary(pods),
    )
