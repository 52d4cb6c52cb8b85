"""A run's resource, as far as the operator decides by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from agentrl_components.errors import SpecError
from agentrl_components.spec import GROUP, AgentRLRun, parse
from agentrl_pipelines.labels import PRIORITY_LABEL
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform

FINALIZER = f"{GROUP}/run"
"""Holds a deleted run until its work has stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One AgentRLRun, its manifest checked."""

    uid: str
    name: str
    namespace: str
    generation: int
    run: AgentRLRun | None
    """None: it has mistakes."""
    mistakes: tuple[str, ...] = ()
    """Of its manifest, one a line."""
    suspend: bool = False
    """As the manifest says, mistakes or not."""
    deleted_at: datetime | None = None
    """Since when its deletion is asked for."""
    held: bool = False
    """Whether our finalizer is on it."""
    priority_class: str | None = None
    """Kueue's, as its label names it."""

    @property
    def experiment(self) -> str:
        """The name of its KFP experiment."""
        return f"{self.name}-{self.uid[:8]}"

    @property
    def queue(self) -> str | None:
        """Kueue's LocalQueue that its manifest names."""
        return self.run.spec.compute.queue if self.run is not None else None

    def child(self, part: str) -> str:
        """The name of an object that it owns."""
        return resolve.child_name(self.name, self.uid, part)

    def run_id(self, phase: int, attempt: int) -> str:
        """The id of a KFP run: whoever asks gets the same one, so starting is idempotent."""
        return run_id(self.uid, phase, attempt)


def run_id(uid: str, phase: int, attempt: int) -> str:
    """The id of the KFP run for this attempt at a phase."""
    return str(uuid5(UUID(uid), f"{phase}/{attempt}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A manifest, checked."""

    run: AgentRLRun | None
    """None: it has mistakes."""
    mistakes: tuple[str, ...]
    suspend: bool


def read(body: Mapping[str, Any], platform: Platform) -> Resource:
    """The resource in an object of the Kubernetes API."""
    return made(body["metadata"], checked(body, platform))


def made(metadata: Mapping[str, Any], checked: Checked) -> Resource:
    """The resource with this metadata and this manifest."""
    deleted = metadata.get("deletionTimestamp")
    return Resource(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        generation=metadata.get("generation", 1),
        run=checked.run,
        mistakes=checked.mistakes,
        suspend=checked.suspend,
        deleted_at=datetime.fromisoformat(deleted) if deleted else None,
        held=FINALIZER in metadata.get("finalizers", ()),
        priority_class=(metadata.get("labels") or {}).get(PRIORITY_LABEL) or None,
    )


def checked(body: Mapping[str, Any], platform: Platform) -> Checked:
    """The manifest in an object of the Kubernetes API."""
    suspend = bool((body.get("spec") or {}).get("suspend", False))
    metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
    manifest = {name: body.get(name) for name in ("apiVersion", "kind", "spec")}
    try:
        run = parse(manifest | {"metadata": metadata})
    except SpecError as error:
        return Checked(run=None, mistakes=tuple(error.mistakes), suspend=suspend)
    misplaced = tuple(_misplaced(run, platform))
    return Checked(run=None if misplaced else run, mistakes=misplaced, suspend=suspend)


def _misplaced(run: AgentRLRun, platform: Platform) -> Iterator[str]:
    """What is right in a manifest and yet cannot work on this cluster."""
    home = platform.kfp.namespace
    if not platform.kfp.multi_user and run.metadata.namespace != home:
        yield f"metadata.namespace: Kubeflow Pipelines runs its pods in {home}; make the run there"
    if run.spec.storage.url is not None and not run.spec.storage.url.startswith("s3://"):
        yield "spec.storage.url: pods share no folder; name an s3:// bucket, or leave it out"


def tracking_uri(resource: Resource, platform: Platform) -> str | None:
    """The MLflow server of a run. None: none that the operator could send requests to."""
    own = resource.run.spec.tracking.uri if resource.run is not None else None
    uri = own or platform.tracking.uri
    return uri if uri is not None and uri.startswith(("http://", "https://")) else None
