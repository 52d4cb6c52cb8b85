"""The metadata of every object that a run owns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests.labels import MANAGED_BY, MANAGER, RUN_UID
from agentrl_pipelines.labels import RUN_LABEL

Manifest = dict[str, Any]
"""An object of the Kubernetes API."""


def metadata(resource: Resource, part: str, labels: Mapping[str, str]) -> Manifest:
    """Metadata with additional `labels`. The run is the owner, so Kubernetes deletes the object
    with it; `part` distinguishes the objects of a run by name."""
    return {
        "name": resource.child(part),
        "namespace": resource.namespace,
        "labels": {**common_labels(resource), RUN_UID: resource.uid, **labels},
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


def common_labels(resource: Resource) -> dict[str, str]:
    """Labels of every object of a run and of every pod of its environments."""
    return {
        "app.kubernetes.io/name": "agentrl",
        "app.kubernetes.io/instance": resource.name,
        MANAGED_BY: MANAGER,
        RUN_LABEL: resource.name,
    }


def fingerprint(content: Manifest) -> str:
    """A hash of JSON content: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
