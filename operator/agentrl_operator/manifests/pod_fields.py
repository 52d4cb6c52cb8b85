"""Fields that the pods of environment servers and of Ray clusters have in common. With them the
pods comply with the `restricted` Pod Security Standard."""

from __future__ import annotations

from collections.abc import Iterable

from agentrl_components.spec.fields.compute import SecretVariable, Variable
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.outbound import CA_FOLDER, outbound_variables

USER = 65532
"""User id of distroless images; a number, because `runAsNonRoot` cannot check a name."""
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The `securityContext` of a pod."""
CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""The `securityContext` of a container."""


def plain_variables(variables: Iterable[Variable]) -> list[Manifest]:
    """The environment variables of the manifest, as in the Kubernetes API."""
    return [{"name": one.name, "value": one.value} for one in variables]


def outbound_env(platform: Platform, *own: Iterable[Variable | SecretVariable]) -> list[Manifest]:
    """The environment variables of the platform for connections to other services, without those
    that the manifest sets, which are in `own`."""
    names = {variable.name for variables in own for variable in variables}
    found = outbound_variables(platform, names)
    return [{"name": name, "value": value} for name, value in found]


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


def secret_variable(name: str, secret: str, key: str) -> Manifest:
    """An environment variable whose value is in a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
