"""Labels and annotations of the objects that the operator creates."""

from __future__ import annotations

from types import MappingProxyType

from agentrl_components.spec import GROUP

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "agentrl-operator"
"""Value of `MANAGED_BY`; also the operator's name in Events, Leases and managedFields."""
RUN_UID = f"{GROUP}/run-uid"
"""Label: the uid of the run that owns the object."""
ENVIRONMENT = f"{GROUP}/environment"
"""Label: the environment that a server belongs to."""
FINGERPRINT = f"{GROUP}/fingerprint"
"""Annotation: a hash of the manifest that the object was created from."""
NO_SIDECAR = MappingProxyType({"sidecar.istio.io/inject": "false"})
"""Label of pods into which Istio injects no sidecar. The pods of KFP's stages have none, so a
sidecar of the other side would refuse their connections."""
