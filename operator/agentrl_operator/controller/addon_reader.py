"""Reads a run's objects of optional add-ons: the RayCluster of KubeRay, and the Sandboxes of
agent-sandbox. Neither kind is watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentrl_operator.api.conditions import Reason
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.pods import (
    Pod,
    all_queued,
    cannot_start,
    creation_problem,
    may_lack_object,
    problem_summary,
    waiting_reason,
)
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import ray_cluster, sandbox
from agentrl_operator.manifests.labels import FINGERPRINT
from agentrl_operator.planning.observation import (
    RayCluster,
    Servers,
    Unknown,
    may_have_ray_cluster,
)
from agentrl_pipelines.labels import QUEUE_LABEL
from agentrl_pipelines.platform.pod_sets import HEAD

CLUSTER_LABEL = "ray.io/cluster"
"""KubeRay's label of the pods of a RayCluster."""
BY_KUEUE = "suspended until Kueue admits it"
"""Problem of a RayCluster that Kueue keeps from having pods."""
NOT_INSTALLED = (
    "spec.compute.ray: cluster needs KubeRay, and this Kubernetes does not serve ray.io/v1; "
    "install KubeRay 1.6, or set the field to embedded"
)
NO_AGENT_SANDBOX = (
    "backend: sandbox needs agent-sandbox, and this Kubernetes does not serve "
    f"{sandbox.GROUP}/{sandbox.VERSION}; install agent-sandbox 0.5, or leave the field out"
)


async def read_ray_cluster(
    cluster: Cluster, resource: Resource, status: Status
) -> RayCluster | Unknown | None:
    """The RayCluster of a run. None: it does not exist, or the run has none. Unknown: KubeRay is
    not installed and the run needs it, or Kubernetes refuses to show it.

    Raises:
        KubernetesError: A request failed and may succeed later without anybody acting.
    """
    if not may_have_ray_cluster(resource, status):
        return None
    name = ray_cluster.name(resource)
    needed = resource.run is not None and ray_cluster.is_wanted(resource.run)
    try:
        body = await cluster.kuberay.get_ray_cluster(resource.namespace, name)
        if body is None:
            if not needed or status.finished or await cluster.kuberay.is_installed():
                return None
            return Unknown(message=NOT_INSTALLED)
        pods = await cluster.list_pods(resource.namespace, CLUSTER_LABEL, (name,))
    except KubernetesError as error:
        if error.retryable:
            raise
        return Unknown(message=str(error))
    metadata = body["metadata"]
    groups = body["spec"]["workerGroupSpecs"]
    per_pod = {one["groupName"]: ray_cluster.actors_per_pod(one) for one in groups}
    pods_wanted = {one["groupName"]: one["replicas"] for one in groups}
    kept = [pod for pod in pods if not (pod.ended or pod.terminating)]
    suspended = _suspension(body)
    refused = creation_problem(body.get("status") or {})
    queued = suspended == BY_KUEUE or all_queued(kept)
    pods_ready = Counter(pod.part for pod in kept if pod.ready)
    waits_for = waiting_reason(kept) or (Reason.POD_NOT_CREATED if refused else None)
    return RayCluster(
        manifest=metadata.get("annotations", {}).get(FINGERPRINT, ""),
        deleting="deletionTimestamp" in metadata,
        wanted={HEAD: 1, **_actors(pods_wanted, per_pod)},
        ready=_actors(pods_ready, per_pod),
        problem="; ".join(one for one in (suspended, refused, _problem(pods)) if one),
        blocked=cannot_start(kept),
        may_lack_object=may_lack_object(kept),
        waits_for=Reason.QUEUED if queued else waits_for,
        queued=queued,
    )


def _suspension(body: Mapping[str, Any]) -> str:
    """Why KubeRay makes no pods of a RayCluster, or deletes them. Kueue admits the cluster as a
    whole: it sets this field of those that name a queue, and removes it when there is quota."""
    if not body["spec"].get("suspend"):
        return ""
    return BY_KUEUE if QUEUE_LABEL in body["metadata"].get("labels", {}) else "spec.suspend is set"


def _problem(pods: Sequence[Pod]) -> str:
    """Why pods of a RayCluster cannot start or end."""
    return problem_summary([pod for pod in pods if pod.stuck or not pod.terminating])


def _actors(pods: Mapping[str, int], per_pod: Mapping[str, int]) -> dict[str, int]:
    """Actors by group. The head is in no group and counts as one."""
    return {group: count * per_pod.get(group, 1) for group, count in pods.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandboxes:
    """The Sandboxes of a run."""

    servers: Mapping[str, Servers] = field(default_factory=lambda: MappingProxyType({}))
    """An entry for each environment that has Sandboxes, under the name that its Deployment would
    have."""
    problem: str = ""
    """Why no Sandbox can be created: agent-sandbox is not installed, or Kubernetes refuses to list
    Sandboxes. Empty: they can be created."""
    unread: bool = False
    """Whether Kubernetes refuses to list them, so that `servers` may lack some."""


async def read_sandboxes(cluster: Cluster, resource: Resource) -> Sandboxes:
    """The Sandboxes of a run.

    Raises:
        KubernetesError: A request failed and may succeed later without anybody acting.
    """
    run = resource.run
    if not (resource.stated.sandboxed if run is None else sandbox.is_wanted(run)):
        return Sandboxes()
    try:
        found = await cluster.agent_sandbox.list_sandboxes(resource.namespace, resource.uid)
    except KubernetesError as error:
        if error.retryable:
            raise
        return Sandboxes(problem=str(error), unread=True)
    if run is None:
        return _of_invalid_manifest(resource, len(found or ()))
    environments = run.spec.environments
    if found is None:
        first = next(i for i, one in enumerate(environments) if sandbox.is_sandboxed(one))
        return Sandboxes(problem=f"spec.environments[{first}].{NO_AGENT_SANDBOX}")
    servers = {}
    for environment in filter(sandbox.is_sandboxed, environments):
        if own := sandbox.of_environment(found, environment):
            servers[resource.child(environment.name)] = Servers(
                manifest=sandbox.found_fingerprint(own),
                ready=sum(map(sandbox.is_ready, own)),
                wanted=environment.replicas,
                sandboxed=True,
            )
    return Sandboxes(servers=servers)


def _of_invalid_manifest(resource: Resource, count: int) -> Sandboxes:
    """Sandboxes of environments that are not known: they can only be deleted."""
    servers = Servers(manifest="", ready=count, wanted=count, sandboxed=True)
    return Sandboxes(servers={resource.child("sandboxes"): servers} if count else {})
