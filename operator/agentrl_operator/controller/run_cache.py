"""A run as Kubernetes last showed it, kept between two looks.

As text: a thousand manifests as models would take more memory than all the rest of the operator,
while a run is looked at for some milliseconds in a minute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentrl_operator.api import resource
from agentrl_operator.api.resource import Resource
from agentrl_pipelines.platform.config import Platform

_METADATA = (
    "name",
    "namespace",
    "uid",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "finalizers",
    "labels",
)
_LATELY = 64
"""Manifests that are kept as models: a new run is looked at a few times in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One of them, without what nobody asks for."""

    uid: str
    version: int
    state: str
    """`status.state`."""
    metadata: Mapping[str, Any]
    manifest: str
    """Everything else but the status."""
    stored: str
    """The status."""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Known:
        """What is kept of an object of the Kubernetes API."""
        metadata, status = body["metadata"], body.get("status") or {}
        manifest = {name: body.get(name) for name in ("apiVersion", "kind", "spec")}
        return cls(
            uid=metadata["uid"],
            version=int(metadata["resourceVersion"]),
            state=status.get("state", "Pending"),
            metadata={name: metadata[name] for name in _METADATA if name in metadata},
            manifest=json.dumps(manifest, ensure_ascii=False),
            stored=json.dumps(status, ensure_ascii=False),
        )

    @property
    def status(self) -> dict[str, Any]:
        """The status as it stands in the resource."""
        status: dict[str, Any] = json.loads(self.stored)
        return status

    def like(self, other: Known) -> bool:
        """Whether nothing but the version differs."""
        unversioned = {"resourceVersion": None}
        return (self.manifest, self.stored, {**self.metadata, **unversioned}) == (
            other.manifest,
            other.stored,
            {**other.metadata, **unversioned},
        )


class Manifests:
    """Makes resources of what is known. A manifest is checked once while it is looked at."""

    def __init__(self, platform: Platform) -> None:
        def checked(manifest: str, name: str, namespace: str) -> resource.Checked:
            named = {"metadata": {"name": name, "namespace": namespace}}
            return resource.checked(json.loads(manifest) | named, platform)

        self._checked = lru_cache(_LATELY)(checked)

    def resource(self, known: Known) -> Resource:
        """What the operator decides by."""
        metadata = known.metadata
        checked = self._checked(known.manifest, metadata["name"], metadata["namespace"])
        return resource.made(metadata, checked)
