"""Kueue fields of a run's pods: the queue labels, and the constraints of admission.

Kueue's terms are used: a pod set is a group of identical pods of a workload, a ResourceFlavor is a
kind of nodes, and a PodSetInfo is what an admission adds to the pods of a pod set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentrl_components.spec import Compute, Environment
from agentrl_pipelines.labels import PRIORITY_LABEL, QUEUE_LABEL
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.pod_sets import STAGES

Toleration = Mapping[str, Any]
"""A toleration as in the Kubernetes API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetInfo:
    """What Kueue's admission adds to the pods of a pod set (Kueue's `podset.PodSetInfo`)."""

    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that the nodes must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations for the taints of these nodes."""
    pod_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that the pods must carry."""
    pod_annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Annotations that the pods must carry; a cluster autoscaler matches them to the nodes that it
    provisioned for this workload."""

    def merged_with(self, other: PodSetInfo) -> PodSetInfo:
        """Both constraints together. Where they set the same key, the value of `other` is used."""
        return PodSetInfo(
            node_selector=node_selector(self.node_selector, other),
            tolerations=tuple(_distinct((*self.tolerations, *other.tolerations))),
            pod_labels={**self.pod_labels, **other.pod_labels},
            pod_annotations={**self.pod_annotations, **other.pod_annotations},
        )


UNCONSTRAINED = PodSetInfo()
"""The pods may run on any node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueAdmission:
    """What Kueue decided about a run."""

    priority_class: str | None = None
    """Name of the run's WorkloadPriorityClass."""
    pod_sets: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """What the admission adds to the pods, by pod set. Empty where Kueue admits single pods."""


NOT_QUEUED = KueueAdmission()


def pod_set(stage: str, compute: Compute) -> str:
    """The pod set whose quota a stage uses. Provision runs before training and evaluation after it;
    both use the first."""
    names = STAGES[compute.placement]
    return stage if stage in names else names[0]


def pod_labels(compute: Compute, platform: Platform, priority_class: str | None) -> dict[str, str]:
    """The labels that submit a pod to Kueue. Empty where Kueue admits whole runs: the pods would be
    counted twice."""
    if compute.queue is None or platform.kueue.admission != "pods":
        return {}
    priority = {} if priority_class is None else {PRIORITY_LABEL: priority_class}
    return {QUEUE_LABEL: compute.queue} | priority


def node_selector(own: Mapping[str, str], info: PodSetInfo) -> dict[str, str]:
    """The node selector of pods whose manifest sets `own`.

    Kueue only assigns flavors that match `own`. If a value differs nevertheless, Kueue's is used,
    since the quota is counted for that flavor."""
    return dict(own) | dict(info.node_selector)


def pod_metadata(compute: Compute, labels: Mapping[str, str], info: PodSetInfo) -> dict[str, Any]:
    """The metadata of pods with their own `labels`, which take precedence over those of `info` and
    of the manifest."""
    annotations = {**compute.pod_annotations, **info.pod_annotations}
    metadata: dict[str, Any] = {"labels": {**compute.pod_labels, **info.pod_labels, **labels}}
    return metadata | ({"annotations": annotations} if annotations else {})


def tolerations(owner: Compute | Environment, info: PodSetInfo) -> list[dict[str, Any]]:
    """The tolerations of pods with those of the manifest and of `info`, without duplicates."""
    return _distinct((*own_tolerations(owner), *info.tolerations))


def own_tolerations(owner: Compute | Environment) -> list[dict[str, Any]]:
    """The tolerations that the manifest sets, as in the Kubernetes API."""
    return [one.model_dump(exclude_none=True) for one in owner.tolerations]


def _distinct(tolerations: Iterable[Toleration]) -> list[dict[str, Any]]:
    """Each of `tolerations` once."""
    found: list[dict[str, Any]] = []
    for one in tolerations:
        full = {"operator": "Equal", **one}
        if full not in found:
            found.append(full)
    return found
