"""An AgentRLRun, as far as the operator's decisions depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from agentrl_components.errors import SpecError
from agentrl_components.spec import GROUP, AgentRLRun, RunSpec, Storage, parse
from agentrl_components.spec.parsing.load import option_mistakes
from agentrl_components.spec.rules.compute.volumes import overlap
from agentrl_pipelines.labels import PRIORITY_LABEL
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.outbound import CA_FOLDER
from agentrl_pipelines.platform.pod_sets import shared_pod_sets
from agentrl_pipelines.platform.store_access import folder_mistake, store_access

FINALIZER = f"{GROUP}/run"
"""Finalizer that delays the deletion of a run until its work has stopped."""
_ANY_UID = "0" * 8
"""Stands for the uid in a manifest that is only checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a manifest says, valid or not. The API server has checked the types of its fields."""

    suspend: bool = False
    """`spec.suspend`."""
    deadline_s: int | None = None
    """`spec.activeDeadlineSeconds`."""
    ttl_s: int | None = None
    """`spec.ttlSecondsAfterFinished`."""
    deletes_data: bool = False
    """Whether `spec.storage.onDelete` is `delete`."""
    sandboxed: bool = False
    """Whether an environment has `backend: sandbox`."""
    queued: bool = False
    """Whether `spec.compute.queue` names a queue."""
    ray: bool = False
    """Whether `spec.compute.ray` is `cluster`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An AgentRLRun with a validated manifest."""

    uid: str
    name: str
    namespace: str
    generation: int
    run: AgentRLRun | None
    """The parsed manifest; None if it is invalid."""
    mistakes: tuple[str, ...] = ()
    """Mistakes in the manifest."""
    stated: Stated = Stated()
    deleted_at: datetime | None = None
    """Time of the request to delete it; None if there is none."""
    has_finalizer: bool = False
    """Whether it has our finalizer."""
    priority_class: str | None = None
    """The WorkloadPriorityClass that its label names."""

    @property
    def experiment(self) -> str:
        """The name of its KFP experiment."""
        return f"{self.name}-{self.uid[:8]}"

    @property
    def suspend(self) -> bool:
        """Whether it is to be suspended, also with an invalid manifest."""
        return self.stated.suspend

    @property
    def queue(self) -> str | None:
        """The LocalQueue of Kueue that its manifest names; None if it names none."""
        return self.run.spec.compute.queue if self.run is not None else None

    def child(self, part: str) -> str:
        """The name of an object that it owns, such as the Service of an environment."""
        return resolve.child_name(self.name, self.uid, part)

    def run_id(self, phase: int, attempt: int) -> str:
        """The id of a KFP run, a function of its arguments and the uid, so that starting a run is
        idempotent."""
        return run_id(self.uid, phase, attempt)


def run_id(uid: str, phase: int, attempt: int) -> str:
    """The id of the KFP run for this attempt at a phase."""
    return str(uuid5(UUID(uid), f"{phase}/{attempt}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedManifest:
    """The result of validating a manifest."""

    run: AgentRLRun | None
    """None if the manifest is invalid."""
    mistakes: tuple[str, ...]
    stated: Stated = Stated()


def read(body: Mapping[str, Any], platform: Platform) -> Resource:
    """The resource in an object of the Kubernetes API."""
    return with_metadata(validated_manifest(body, platform), body["metadata"])


def with_metadata(manifest: ValidatedManifest, metadata: Mapping[str, Any]) -> Resource:
    """The resource with this manifest and metadata."""
    deleted = metadata.get("deletionTimestamp")
    return Resource(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        generation=metadata.get("generation", 1),
        run=manifest.run,
        mistakes=manifest.mistakes,
        stated=manifest.stated,
        deleted_at=datetime.fromisoformat(deleted) if deleted else None,
        has_finalizer=FINALIZER in metadata.get("finalizers", ()),
        priority_class=(metadata.get("labels") or {}).get(PRIORITY_LABEL) or None,
    )


def validated_manifest(body: Mapping[str, Any], platform: Platform) -> ValidatedManifest:
    """The manifest in an object of the Kubernetes API, validated for this platform."""
    stated = _stated(body.get("spec") or {})
    metadata = {name: body["metadata"][name] for name in ("name", "namespace")}
    manifest = {name: body.get(name) for name in ("apiVersion", "kind", "spec")}
    try:
        run = parse(manifest | {"metadata": metadata})
    except SpecError as error:
        return ValidatedManifest(run=None, mistakes=tuple(error.mistakes), stated=stated)
    # The operator executes no code of other packages.
    mistakes = (*option_mistakes(run, own_only=True), *_platform_mistakes(run, platform))
    return ValidatedManifest(run=None if mistakes else run, mistakes=mistakes, stated=stated)


def _stated(spec: Mapping[str, Any]) -> Stated:
    storage, environments = spec.get("storage") or {}, spec.get("environments") or ()
    compute = spec.get("compute") or {}
    return Stated(
        suspend=bool(spec.get("suspend", False)),
        deadline_s=spec.get("activeDeadlineSeconds"),
        ttl_s=spec.get("ttlSecondsAfterFinished"),
        deletes_data=storage.get("onDelete") == "delete",
        sandboxed=any(one.get("backend") == "sandbox" for one in environments),
        queued=compute.get("queue") is not None,
        ray=compute.get("ray") == "cluster",
    )


def _platform_mistakes(run: AgentRLRun, platform: Platform) -> Iterator[str]:
    """What is valid in general but cannot work on this cluster."""
    namespace = platform.kfp.namespace
    if not platform.kfp.multi_user and run.metadata.namespace != namespace:
        yield (
            "metadata.namespace: Kubeflow Pipelines runs all pods in the namespace "
            f"{namespace}; create the run there"
        )
    mistake = _storage_mistake(run.spec.storage, platform)
    if mistake is not None:
        yield mistake
    else:
        yield from _mistakes_of_stages(run, platform)
    own = run.spec.tracking.uri
    if own is not None and not own.lower().startswith(("http://", "https://")):
        yield (
            "spec.tracking.uri: pods share no folder and no database file; use the http:// or "
            "https:// address of an MLflow server, or omit the field"
        )
    yield from _volume_mistakes(run.spec, platform)
    needed, limit = len(shared_pod_sets(run)), platform.kueue.max_pod_sets
    if platform.kueue.admission == "run" and run.spec.compute.queue is not None and needed > limit:
        yield (
            f"spec.environments: the run needs {needed} pod sets of Kueue, and {limit} are "
            "allowed; give more environments the same cpu, memory, nodeSelector and tolerations, "
            "so that they share a pod set, or let an administrator raise kueue.maxPodSets, if this "
            "Kueue allows more"
        )


def _volume_mistakes(spec: RunSpec, platform: Platform) -> Iterator[str]:
    """Volumes of the manifest with the name or the path of the one with the platform's
    certificates."""
    if platform.ca_bundle is None:
        return
    of_servers = (
        (f"spec.environments[{index}].volumes", environment.volumes)
        for index, environment in enumerate(spec.environments)
    )
    for where, volume in (
        (f"{field}[{number}]", volume)
        for field, volumes in (("spec.compute.volumes", spec.compute.volumes), *of_servers)
        for number, volume in enumerate(volumes)
    ):
        if volume.claim == platform.ca_bundle.config_map:
            yield (
                f"{where}.claim: {volume.claim} is the name of the volume with the certificates "
                "of this platform; use another claim"
            )
        if overlap(volume.path, CA_FOLDER):
            yield (
                f"{where}.path: {volume.path} is where pods have the certificates of this "
                "platform; choose another path, such as /models"
            )


def _storage_mistake(storage: Storage, platform: Platform) -> str | None:
    mistake = folder_mistake(storage)
    if mistake is not None:
        return mistake
    if store_access(storage, platform) is not None:
        return None
    service = storage.endpoint or "AWS S3"
    if storage.url is None:
        return (
            f"spec.storage.endpoint: {service} is not the object store of this platform, in "
            "which a run without spec.storage.url is stored; set spec.storage.url to a bucket "
            f"of {service}, or leave spec.storage.endpoint out"
        )
    return (
        f"spec.storage.endpoint: {service} is not an object store of this platform; use "
        "another one, or let an administrator add it to storage.others"
    )


def _mistakes_of_stages(run: AgentRLRun, platform: Platform) -> Iterator[str]:
    """Mistakes that the stages would find in the manifest with the values of the platform."""
    resolved = resolve.cluster_manifest(run, _ANY_UID, platform)
    try:
        parse(resolved.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    except SpecError as error:
        yield from (f"with the values of this platform, {one}" for one in error.mistakes)


def tracking_uri(resource: Resource, platform: Platform) -> str | None:
    """The MLflow server of a run to which the operator may send requests: the platform's, or one
    that its configuration lists. None: there is no such server."""
    return listed_tracking_uri(stage_tracking_uri(resource, platform), platform)


def listed_tracking_uri(uri: str | None, platform: Platform) -> str | None:
    """`uri` if the operator may send requests to that MLflow server; else None."""
    return uri if uri in {platform.tracking.uri, *platform.tracking.others} else None


def mlflow_url(run_id: str | None, run: AgentRLRun, platform: Platform) -> str | None:
    """The page of a run in the MLflow UI. The platform's MLflow may have another address for
    people (`ui_url`) than for pods (`uri`)."""
    own = run.spec.tracking.uri
    ui = own or platform.tracking.ui_url or platform.tracking.uri
    return f"{ui.rstrip('/')}/#/runs/{run_id}" if ui and run_id else None


def stage_tracking_uri(resource: Resource, platform: Platform) -> str | None:
    """The MLflow server to which the stages of a run log over HTTP. None: there is none."""
    own = resource.run.spec.tracking.uri if resource.run is not None else None
    uri = own or platform.tracking.uri
    return uri if uri is not None and uri.startswith(("http://", "https://")) else None
