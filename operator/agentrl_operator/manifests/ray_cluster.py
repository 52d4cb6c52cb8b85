"""The RayCluster of a run (KubeRay, `ray.io/v1`): a head, and pods for trainers and for samplers.

The stages are its drivers: they join it with a Ray node of their own. The pods comply with the
`restricted` Pod Security Standard. The run owns the RayCluster, and the RayCluster its pods, so
Kubernetes deletes all of them with the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentrl_components.spec import AgentRLRun
from agentrl_components.spec.quantities import whole_cpus
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import metadata as owned
from agentrl_operator.manifests.labels import FINGERPRINT, NO_SIDECAR
from agentrl_operator.manifests.metadata import Manifest, common_labels, metadata
from agentrl_operator.manifests.pod_fields import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    ca_mounts,
    ca_volumes,
    claim_mounts,
    claim_volumes,
    plain_variables,
    secret_variable,
)
from agentrl_pipelines.kfp_pipeline.pipeline_spec import secret_variables
from agentrl_pipelines.labels import RAY_CLUSTER, RAY_LABEL
from agentrl_pipelines.platform import kueue_pods, resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo
from agentrl_pipelines.platform.pod_sets import (
    HEAD,
    HEAD_REQUESTS,
    WorkerGroup,
    ray_set,
    worker_groups,
)

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayclusters"
RAY_VERSION = "2.60.0"
"""The version of Ray in our images. From 2.53 on KubeRay probes pods over HTTP."""
PORTS = {
    "node-manager-port": "6380",
    "object-manager-port": "6381",
    "runtime-env-agent-port": "6382",
    "dashboard-agent-grpc-port": "6383",
    "min-worker-port": "10002",
    "max-worker-port": "19999",
}
"""Ports of every node. They are fixed because Ray chooses others at each start, and a NetworkPolicy
names ports. The range for workers is Ray's default, from which a driver gets its port, too."""
HEALTH_PORT = "8266"
"""Port of the agent on each node, which the kubelet probes. It is outside of the range from which
trainers choose the port of their process group."""
PLAIN_ENV = (
    {"name": "HOME", "value": "/tmp"},
    # Ray would drain a node for 30 s before it ends: longer than the pod's grace period. When pods
    # are deleted, the stages have ended or begin again from the last commit.
    {"name": "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "value": "0"},
)
"""Environment variables that every pod has. Those of the manifest take precedence."""
ON_THE_NODE: Manifest = {"emptyDir": {}}
"""Source of a volume on the disk of the pod's node."""
COMMON = {"disable-usage-stats": "true", "dashboard-agent-listen-port": HEALTH_PORT, **PORTS}
"""Options of `ray start` on every node."""


def actors_per_pod(group: Manifest) -> int:
    """Actors in each pod of an entry of `workerGroupSpecs` that `manifest` returned."""
    resources = json.loads(group["rayStartParams"]["resources"].strip("'"))
    return int(resources[group["groupName"]])


def is_wanted(run: AgentRLRun) -> bool:
    """Whether the operator keeps a Ray cluster for the run."""
    return run.spec.compute.ray == "cluster"


def name(resource: Resource) -> str:
    """The name of a run's RayCluster."""
    return resolve.ray_cluster_name(resource.name, resource.uid)


def manifest(
    resource: Resource,
    run: AgentRLRun,
    platform: Platform,
    nodes: Mapping[str, PodSetInfo],
) -> Manifest:
    """The RayCluster, with its fingerprint as an annotation. `nodes` are those that Kueue assigned
    to its pod sets."""
    queue = kueue_pods.pod_labels(run.spec.compute, platform, resource.priority_class)
    meta = metadata(resource, RAY_CLUSTER, queue) | {"name": name(resource)}
    meta["annotations"] = {FINGERPRINT: fingerprint(resource, run, platform, nodes)}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "RayCluster",
        "metadata": meta,
        "spec": _spec(resource, run, platform, nodes),
    }


def fingerprint(
    resource: Resource,
    run: AgentRLRun,
    platform: Platform,
    nodes: Mapping[str, PodSetInfo],
) -> str:
    """The value of the annotation of an up-to-date RayCluster."""
    return owned.fingerprint(_spec(resource, run, platform, nodes))


def _spec(
    resource: Resource, run: AgentRLRun, platform: Platform, nodes: Mapping[str, PodSetInfo]
) -> Manifest:
    def template(group: str, requests: Mapping[str, str], files: Manifest) -> Manifest:
        info = nodes.get(ray_set(group), UNCONSTRAINED)
        return _pod(resource, run, platform, group, requests, files, info)

    head = {"num-cpus": "0", "num-gpus": "0", **COMMON}
    groups = [
        {
            "groupName": one.name,
            "replicas": one.pods,
            "minReplicas": one.pods,
            "maxReplicas": one.pods,
            "rayStartParams": _worker_params(one),
            "template": template(one.name, one.requests, _temporary_files(one)),
        }
        for one in worker_groups(run.spec.compute)
    ]
    return {
        "rayVersion": RAY_VERSION,
        "authOptions": {"mode": "token"},  # KubeRay creates the token, in a Secret of this name
        "headGroupSpec": {
            "rayStartParams": head,
            "template": template(HEAD, HEAD_REQUESTS, ON_THE_NODE),
        },
        "workerGroupSpecs": groups,
    }


def _worker_params(group: WorkerGroup) -> dict[str, str]:
    return {
        "num-cpus": str(whole_cpus(group.spec.cpu) * group.spec.per_pod),
        "num-gpus": str(group.spec.gpus * group.spec.per_pod),
        # Quoted for the shell that KubeRay runs.
        "resources": f"'{json.dumps({group.name: group.spec.per_pod})}'",
        **COMMON,
    }


def _temporary_files(group: WorkerGroup) -> Manifest:
    """Source of the volume for a pod's temporary files: the node's disk, or a volume of its own
    that Kubernetes creates and deletes with the pod."""
    if group.storage_class is None or group.disk is None:
        return ON_THE_NODE
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": group.storage_class,
        "resources": {"requests": {"storage": group.disk}},
    }
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _pod(
    resource: Resource,
    run: AgentRLRun,
    platform: Platform,
    group: str,
    requests: Mapping[str, str],
    files: Manifest,
    info: PodSetInfo,
) -> Manifest:
    """A pod of `group`. `files`: the source of the volume for its temporary files."""
    compute = run.spec.compute
    queue = kueue_pods.pod_labels(compute, platform, resource.priority_class)
    labels = common_labels(resource) | NO_SIDECAR | {RAY_LABEL: group} | queue
    return {
        "metadata": kueue_pods.pod_metadata(compute, labels, info),
        "spec": {
            **({"serviceAccountName": compute.service_account} if compute.service_account else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 15,
            "securityContext": POD_SECURITY,
            "containers": [_container(resource, run, platform, requests)],
            "volumes": [
                {"name": "tmp", **files},
                *claim_volumes(compute.volumes),
                *ca_volumes(platform),
            ],
            "nodeSelector": kueue_pods.node_selector(compute.node_selector, info),
            "tolerations": kueue_pods.tolerations(compute, info),
        },
    }


def _container(
    resource: Resource, run: AgentRLRun, platform: Platform, requests: Mapping[str, str]
) -> Manifest:
    compute = run.spec.compute
    limits = {name: value for name, value in requests.items() if name != "cpu"}
    return {
        "name": "ray",
        "image": compute.image or platform.images.stage,
        "imagePullPolicy": platform.images.pull_policy,
        "env": [
            *PLAIN_ENV,
            *plain_variables(platform, compute.env, compute.secret_env),
            *_secret_env(run, resource, platform),
        ],
        "resources": {"requests": dict(requests), "limits": limits},
        # A node that starts slowly is not killed. KubeRay adds the other probes.
        "startupProbe": {
            "httpGet": {"path": "/api/healthz", "port": int(HEALTH_PORT)},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 300,
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            *claim_mounts(compute.volumes),
            *ca_mounts(platform),
        ],
    }


def _secret_env(run: AgentRLRun, resource: Resource, platform: Platform) -> Iterator[Manifest]:
    """The variables from Secrets that the stages have: actors read models and play episodes."""
    for secret in secret_variables(run, resource.uid, platform):
        for one in secret["keyToEnv"]:
            yield secret_variable(one["envVar"], secret["secretName"], one["secretKey"])
