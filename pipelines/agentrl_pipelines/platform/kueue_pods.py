"""Kueue, as far as a run's pods show it: the labels that they carry, and the nodes that it chose.

Kueue calls pods that are alike a pod set, and the nodes that some quota is for a flavor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentrl_components.spec import Compute
from agentrl_pipelines.platform.config import Platform

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Names a WorkloadPriorityClass; on an AgentRLRun too."""
SIDE_BY_SIDE = {"colocated": ("train",), "disaggregated": ("rollout", "update")}
"""Stages that hold the model at the same time, by `compute.placement`: a pod set each."""

Toleration = Mapping[str, Any]
"""As Kubernetes has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Where the pods of a set may run, besides what the manifest says of it."""

    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Of the nodes."""
    tolerations: tuple[Toleration, ...] = ()
    """For the taints of the nodes."""
    pod_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """That a pod must carry to be let onto them..."""
    pod_annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """...and annotations: by these a cluster autoscaler knows for whom it made room."""

    def and_(self, other: Nodes) -> Nodes:
        """Nodes that are of both kinds; where the two differ in a value, the other's counts."""
        return Nodes(
            labels=selector(self.labels, other),
            tolerations=tuple(tolerated(self.tolerations, other)),
            pod_labels={**self.pod_labels, **other.pod_labels},
            pod_annotations={**self.pod_annotations, **other.pod_annotations},
        )


ANYWHERE = Nodes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """What Kueue and a run have agreed on."""

    priority_class: str | None = None
    """The WorkloadPriorityClass that the run names."""
    nodes: Mapping[str, Nodes] = field(default_factory=lambda: MappingProxyType({}))
    """By pod set; where Kueue admits whole runs."""


UNQUEUED = Queued()


def pod_set(stage: str, compute: Compute) -> str:
    """The pod set whose quota a stage uses: its own; evaluation, which follows, the first's."""
    together = SIDE_BY_SIDE[compute.placement]
    return stage if stage in together else together[0]


def labels(compute: Compute, platform: Platform, priority_class: str | None) -> dict[str, str]:
    """The labels of a pod that Kueue admits by itself. Where it admits whole runs there are none:
    pods would be counted twice."""
    if compute.queue is None or platform.kueue.admission != "pods":
        return {}
    priority = {} if priority_class is None else {PRIORITY_LABEL: priority_class}
    return {QUEUE_LABEL: compute.queue} | priority


def selector(own: Mapping[str, str], nodes: Nodes) -> dict[str, str]:
    """The node selector of pods that have one of their own. Kueue chose among the nodes that have
    these labels, so they do not differ; should they, quota is counted where Kueue says."""
    return dict(own) | dict(nodes.labels)


def carried(own: Mapping[str, str], nodes: Nodes) -> dict[str, Any]:
    """The metadata of pods that have labels of their own, which stay as they are: with what lets
    them onto the nodes."""
    metadata: dict[str, Any] = {"labels": {**nodes.pod_labels, **own}}
    if nodes.pod_annotations:
        metadata["annotations"] = dict(nodes.pod_annotations)
    return metadata


def tolerated(own: Iterable[Toleration], nodes: Nodes) -> list[dict[str, Any]]:
    """The tolerations of pods that have some of their own, none of them twice."""
    found: list[dict[str, Any]] = []
    for one in (*own, *nodes.tolerations):
        full = {"operator": "Equal", **one}
        if full not in found:
            found.append(full)
    return found
