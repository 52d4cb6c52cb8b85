"""A run's resource, as far as the operator decides by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from agentrl_components.errors import SpecError
from agentrl_components.spec import GROUP, AgentRLRun, parse
from agentrl_pipelines.platform import Platform

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

    def run_id(self, phase: int, attempt: int) -> str:
        """The id of a KFP run: whoever asks gets the same one, so starting is idempotent."""
        return run_id(self.uid, phase, attempt)


def run_id(uid: str, phase: int, attempt: int) -> str:
    """The id of the KFP run for this attempt at a phase."""
    return str(uuid5(UUID(uid), f"{phase}/{attempt}"))


def read(body: Mapping[str, Any], platform: Platform, before: Resource | None = None) -> Resource:
    """The resource in an object of the Kubernetes API. `before`: as it was read earlier, which
    saves checking a manifest that has not changed."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    version = (metadata["uid"], metadata.get("generation", 1))
    if before is not None and (before.uid, before.generation) == version:
        run, mistakes = before.run, before.mistakes
    else:
        run, mistakes = _checked(body, platform)
    deleted = metadata.get("deletionTimestamp")
    return Resource(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        generation=metadata.get("generation", 1),
        run=run,
        mistakes=mistakes,
        suspend=bool(spec.get("suspend", False)),
        deleted_at=datetime.fromisoformat(deleted) if deleted else None,
        held=FINALIZER in metadata.get("finalizers", ()),
    )


def _checked(
    body: Mapping[str, Any], platform: Platform
) -> tuple[AgentRLRun | None, tuple[str, ...]]:
    metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
    manifest = {name: body.get(name) for name in ("apiVersion", "kind", "spec")}
    try:
        run = parse(manifest | {"metadata": metadata})
    except SpecError as error:
        return None, tuple(error.mistakes)
    misplaced = tuple(_misplaced(run, platform))
    return (None, misplaced) if misplaced else (run, ())


def _misplaced(run: AgentRLRun, platform: Platform) -> Iterator[str]:
    """What is right in a manifest and yet cannot work on this cluster."""
    home = platform.kfp.namespace
    if not platform.kfp.multi_user and run.metadata.namespace != home:
        yield f"metadata.namespace: Kubeflow Pipelines runs its pods in {home}; make the run there"
    if run.spec.storage.url is not None and not run.spec.storage.url.startswith("s3://"):
        yield "spec.storage.url: pods share no folder; name an s3:// bucket, or leave it out"
