"""Fields that the pods of environment servers and of Ray clusters have in common. With them the
pods comply with the `restricted` Pod Security Standard."""

from __future__ import annotations

from collections.abc import Iterable

from agentrl_components.spec.fields.compute import Variable
from agentrl_operator.manifests.metadata import Manifest

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


def secret_variable(name: str, secret: str, key: str) -> Manifest:
    """An environment variable whose value is in a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
