"""Fields that the pods of environment servers and of Ray clusters have in common. With them the
pods comply with the `restricted` Pod Security Standard."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.spec.fields.pods import SecretVariable, Variable, Volume
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.outbound import CA_FOLDER, pod_variables

USER = 65532
"""User id of distroless images; a number, because `runAsNonRoot` cannot check a name."""
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    # Otherwise the owner of each file of a claim is set whenever a pod starts: minutes, if there
    # are many.
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The `securityContext` of a pod."""
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The `securityContext` of a container."""


def plain_variables(
    platform: Platform, env: Sequence[Variable], secret_env: Sequence[SecretVariable]
) -> list[Manifest]:
    """The environment variables of a pod that are not secret, as in the Kubernetes API: those of
    its manifest, which sets `env` and `secret_env`, and of the platform."""
    variables = pod_variables(platform, env, secret_env)
    return [{"name": name, "value": value} for name, value in variables]


def ca_volumes(platform: Platform) -> list[Manifest]:
    """The volume of a pod with the certificates that it trusts, if the platform has any. Its name
    is that of the ConfigMap, as in pods of Kubeflow Pipelines."""
    if platform.ca_bundle is None:
        return []
    name = platform.ca_bundle.config_map
    return [{"name": name, "configMap": {"name": name}}]


def ca_mounts(platform: Platform) -> list[Manifest]:
    """Where a container mounts `ca_volumes`."""
    if platform.ca_bundle is None:
        return []
    name = platform.ca_bundle.config_map
    return [{"name": name, "mountPath": CA_FOLDER, "readOnly": True}]


def claim_volumes(volumes: Sequence[Volume]) -> list[Manifest]:
    """The volumes of a pod with the manifest's claims. Each has the name of its claim."""
    return [
        {"name": one.claim, "persistentVolumeClaim": {"claimName": one.claim}} for one in volumes
    ]


def claim_mounts(volumes: Sequence[Volume]) -> list[Manifest]:
    """Where a container mounts `claim_volumes`."""
    return [{"name": one.claim, "mountPath": one.path} for one in volumes]


def secret_variable(name: str, secret: str, key: str) -> Manifest:
    """An environment variable whose value is in a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
