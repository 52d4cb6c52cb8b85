"""The manifests of what a run owns: per environment a Deployment and a Service, and one Secret.

Pods keep to the `restricted` Pod Security Standard. Everything names the run as its owner, so
Kubernetes deletes it with the run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from agentrl_components.spec import GROUP, KIND, VERSION, AgentRLRun, Environment, SecretVariable
from agentrl_operator.api.resource import Resource
from agentrl_pipelines.labels import (
    ENVIRONMENT_PORT,
    RUN_LABEL,
    TOKEN_KEY,
    TOKEN_SECRET,
    TOKEN_VARIABLE,
)
from agentrl_pipelines.platform import kueue_pods
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo

Manifest = dict[str, Any]

MANAGER = "agentrl-operator"
MANAGED_BY = "app.kubernetes.io/managed-by"
FINGERPRINT = f"{GROUP}/fingerprint"
RUN_UID = f"{GROUP}/run-uid"
ENVIRONMENT = f"{GROUP}/environment"
USER = 65532
"""Numeric, as `runAsNonRoot` can only check a number; the one of distroless images."""


def token(resource: Resource, value: str) -> Manifest:
    """The Secret with the token that stages show to environment servers."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(resource, TOKEN_SECRET, {}),
        "type": "Opaque",
        "data": {TOKEN_KEY: base64.b64encode(value.encode()).decode()},
    }


def service(resource: Resource, environment: Environment) -> Manifest:
    """Where stages find an environment's servers."""
    labels = _selector(resource, environment)
    # Headless: a session lives on one server, so of several, stages must see each one's own
    # address; and a cluster has fewer addresses for Services than it may have runs.
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
    """An environment's servers; its fingerprint is in an annotation."""
    made = _deployment(resource, run, environment, platform, nodes)
    made["metadata"]["annotations"] = {FINGERPRINT: _fingerprint(made)}
    return made


def fingerprint(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> str:
    """What the annotation of an up-to-date Deployment says."""
    return _fingerprint(_deployment(resource, run, environment, platform, nodes))


def _fingerprint(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def _deployment(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo,
) -> Manifest:
    labels = _selector(resource, environment)
    queue = kueue_pods.pod_labels(run.spec.compute, platform, resource.priority_class)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(resource, environment.name, labels | queue),
        "spec": {
            "replicas": environment.replicas,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": kueue_pods.pod_metadata(_common(resource) | labels | queue, nodes),
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 15,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(resource, environment, platform)],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                    **_where(nodes),
                },
            },
        },
    }


def _where(nodes: PodSetInfo) -> Manifest:
    where = {
        "nodeSelector": kueue_pods.node_selector({}, nodes),
        "tolerations": kueue_pods.tolerations((), nodes),
    }
    return {name: value for name, value in where.items() if value}


def _container(resource: Resource, environment: Environment, platform: Platform) -> Manifest:
    secret = resource.child(TOKEN_SECRET)
    shown = SecretVariable(name=TOKEN_VARIABLE, secret=secret, key=TOKEN_KEY)
    container: Manifest = {
        "name": "environment",
        "image": environment.image or platform.images.environment,
        "imagePullPolicy": platform.images.pull_policy,
        "env": [
            _from_secret(shown),
            {"name": "PORT", "value": str(ENVIRONMENT_PORT)},
            {"name": "HOME", "value": "/tmp"},
            *(_from_secret(variable) for variable in environment.secret_env),
        ],
        "ports": [{"name": "http", "containerPort": ENVIRONMENT_PORT}],
        "startupProbe": _probe("/healthz", periodSeconds=1, failureThreshold=300),
        "readinessProbe": _probe("/readyz", periodSeconds=2, failureThreshold=2),
        "livenessProbe": _probe("/healthz", periodSeconds=10, failureThreshold=6),
        "resources": {
            "requests": {"cpu": environment.cpu, "memory": environment.memory},
            "limits": {"memory": environment.memory},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if environment.builtin is not None:
        container["command"] = _served(environment.builtin, environment)
    return container


def _from_secret(variable: SecretVariable) -> Manifest:
    source = {"secretKeyRef": {"name": variable.secret, "key": variable.key}}
    return {"name": variable.name, "valueFrom": source}


def _served(builtin: str, environment: Environment) -> list[str]:
    options = [
        word
        for name, value in environment.options.items()
        for word in ("--options", f"{name}={json.dumps(value)}")
    ]
    port = str(ENVIRONMENT_PORT)
    reached = ["--host", "0.0.0.0", "--port", port, "--token-env", TOKEN_VARIABLE]
    return ["agentrl", "envs", "serve", builtin, *options, *reached]


def _probe(path: str, **numbers: int) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5, **numbers}


def _selector(resource: Resource, environment: Environment) -> dict[str, str]:
    return {RUN_UID: resource.uid, ENVIRONMENT: environment.name}


def _common(resource: Resource) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "agentrl",
        "app.kubernetes.io/instance": resource.name,
        MANAGED_BY: MANAGER,
        RUN_LABEL: resource.name,
    }


def metadata(resource: Resource, part: str, labels: dict[str, str]) -> Manifest:
    """Of an object that the run owns."""
    return {
        "name": resource.child(part),
        "namespace": resource.namespace,
        "labels": _common(resource) | {RUN_UID: resource.uid} | labels,
        "ownerReferences": [
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "name": resource.name,
                "uid": resource.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
