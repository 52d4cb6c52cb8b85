"""Manifests of the environment servers of a run: a Deployment and a Service for each environment,
and one Secret for all. `sandbox` has another form of the Deployment.

The pods comply with the `restricted` Pod Security Standard. The run owns all objects, so Kubernetes
deletes them with it.
"""

from __future__ import annotations

import base64
import json

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_components.spec.fields.environments import MAX_TIMEOUT_S
from agentrl_envs import registry
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import metadata as owned
from agentrl_operator.manifests import server_fingerprint
from agentrl_operator.manifests.labels import ENVIRONMENT, FINGERPRINT, NO_SIDECAR, RUN_UID
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
from agentrl_pipelines.labels import ENVIRONMENT_PORT, TOKEN_KEY, TOKEN_SECRET, TOKEN_VARIABLE
from agentrl_pipelines.platform import kueue_pods, resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo
from agentrl_pipelines.platform.pod_sets import server_requests

SHUTDOWN_S = 15
"""Seconds from the end of the last session to the end of the process, at most."""
TMP_SIZE = "4Gi"
"""Limit of a server's `/tmp`, which is its home, too: large enough for the profiles of Chromium and
for JVMs. Without a limit one server could fill the disk of its node."""


def token_secret(resource: Resource, value: str) -> Manifest:
    """The Secret with the bearer token that stages send to environment servers."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(resource, TOKEN_SECRET, {}),
        "type": "Opaque",
        "data": {TOKEN_KEY: base64.b64encode(value.encode()).decode()},
    }


def service(resource: Resource, environment: Environment) -> Manifest:
    """The Service by which stages find an environment's servers."""
    labels = selector(resource, environment)
    # Headless: a session lives on one server, so stages need the address of each server; and a
    # cluster has fewer addresses for Services than it may have runs.
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(resource, environment.name, labels),
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": "http", "port": ENVIRONMENT_PORT, "targetPort": "http"}],
        },
    }


def deployment(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> Manifest:
    """The Deployment of an environment's servers, with its fingerprint as an annotation. `nodes`
    are those that Kueue assigned to them."""
    manifest = _deployment(resource, run, environment, platform, nodes)
    parts = server_fingerprint.joined(
        server_fingerprint.run_part_of(environment, nodes),
        owned.fingerprint(manifest),
        server_fingerprint.queue_part_of(resource, run, platform),
    )
    manifest["metadata"]["annotations"] = {FINGERPRINT: parts}
    return manifest


def fingerprint(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> str:
    """The value of the annotation of an up-to-date Deployment."""
    manifest = deployment(resource, run, environment, platform, nodes)
    annotation: str = manifest["metadata"]["annotations"][FINGERPRINT]
    return annotation


def image(environment: Environment, platform: Platform) -> str:
    """The image of an environment's servers: its own, or one with what the builtin needs."""
    return environment.image or platform.images.of(registry.needs(environment.builtin or "").image)


def _deployment(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo,
) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(
            resource, environment.name, server_labels(resource, run, environment, platform)
        ),
        "spec": {
            "replicas": resolve.replicas(environment)[0],
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": selector(resource, environment)},
            "template": pod_template(resource, run, environment, platform, nodes),
        },
    }


def server_labels(
    resource: Resource, run: AgentRLRun, environment: Environment, platform: Platform
) -> dict[str, str]:
    """The labels of an environment's servers: those by which they are selected, and Kueue's."""
    queue = kueue_pods.pod_labels(run.spec.compute, platform, resource.priority_class)
    return selector(resource, environment) | queue


def pod_template(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo,
) -> Manifest:
    """The pod of one server."""
    own = server_labels(resource, run, environment, platform)
    labels = common_labels(resource) | NO_SIDECAR | own
    spec = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": SHUTDOWN_S + _drain_s(environment),
        "securityContext": POD_SECURITY,
        "containers": [_container(resource, environment, platform)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}},
            *claim_volumes(environment.volumes),
            *ca_volumes(platform),
        ],
        **_node_fields(environment, nodes),
    }
    if environment.runtime_class_name is not None:
        spec["runtimeClassName"] = environment.runtime_class_name
    metadata = kueue_pods.pod_metadata(run.spec.compute, labels, nodes)
    return {"metadata": metadata, "spec": spec}


def _node_fields(environment: Environment, nodes: PodSetInfo) -> Manifest:
    fields = {
        "nodeSelector": kueue_pods.node_selector(environment.node_selector, nodes),
        "tolerations": kueue_pods.tolerations(environment, nodes),
    }
    return {name: value for name, value in fields.items() if value}


def _container(resource: Resource, environment: Environment, platform: Platform) -> Manifest:
    container: Manifest = {
        "name": "environment",
        "image": image(environment, platform),
        "imagePullPolicy": platform.images.pull_policy,
        "env": [
            secret_variable(TOKEN_VARIABLE, resource.child(TOKEN_SECRET), TOKEN_KEY),
            {"name": "PORT", "value": str(ENVIRONMENT_PORT)},
            {"name": "HOME", "value": "/tmp"},
            *(secret_variable(one.name, one.secret, one.key) for one in environment.secret_env),
            *plain_variables(platform, environment.env, environment.secret_env),
        ],
        "ports": [{"name": "http", "containerPort": ENVIRONMENT_PORT}],
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=300),
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=2),
        "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
        "resources": {
            "requests": server_requests(environment),
            "limits": {"memory": server_requests(environment)["memory"]},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            *claim_mounts(environment.volumes),
            *ca_mounts(platform),
        ],
    }
    if environment.builtin is not None:
        container["command"] = _serve_command(environment.builtin, environment)
    return container


def _serve_command(builtin: str, environment: Environment) -> list[str]:
    options = [
        word
        for name, value in environment.options.items()
        for word in ("--options", f"{name}={json.dumps(value)}")
    ]
    port = str(ENVIRONMENT_PORT)
    # All addresses: that of the pod may be of either family.
    flags = ["--host", "::", "--port", port, "--token-env", TOKEN_VARIABLE]
    # Stages send `timeoutS` with their calls, so that an edit of it does not restart the servers.
    flags += ["--timeout", str(MAX_TIMEOUT_S)]
    if environment.scaling is not None:
        flags += ["--drain", str(environment.scaling.drain_s)]
        if environment.scaling.sessions_per_server is not None:
            flags += ["--capacity", str(environment.scaling.sessions_per_server)]
    return ["agentrl", "envs", "serve", builtin, *options, *flags]


def _drain_s(environment: Environment) -> int:
    return environment.scaling.drain_s if environment.scaling is not None else 0


def _probe(path: str, **numbers: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5, **numbers}


def selector(resource: Resource, environment: Environment) -> dict[str, str]:
    """The labels by which the pods of an environment are selected."""
    return {RUN_UID: resource.uid, ENVIRONMENT: environment.name}
