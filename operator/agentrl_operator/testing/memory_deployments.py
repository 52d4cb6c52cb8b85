"""Kubernetes' Deployment controller in memory: the pods of Deployments, and their status."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.testing.memory_kueue import Children

SURGE = 1
"""Pods of a new template that are started before old ones are stopped."""


@dataclass(slots=True, kw_only=True)
class _Rollout:
    """How far the pods of a Deployment follow its spec."""

    spec: Manifest
    """The newest spec that was written."""
    template: Manifest
    """The pod template that the controller has seen."""
    generation: int = 1
    observed: int = 1
    """The generation that the controller has seen."""
    updated: int
    """Pods of that template."""
    outdated: int = 0
    """Pods of earlier templates."""


class MemoryDeployments:
    """The Deployments of a `MemoryCluster`. The pods of a new one are there at once. One that
    changes follows with each `step`: first the controller sees the change and starts a pod of the
    new template, then the old ones are replaced."""

    def __init__(self, children: Children) -> None:
        self.observes = True
        """Whether the controller works."""
        self.new_pods_start = True
        """Whether pods of a new template become ready. The old ones stay until they do."""
        self._children = children
        self._rollouts: dict[tuple[str, str], _Rollout] = {}

    def forget(self, manifest: Manifest) -> None:
        """Drop the pods of an earlier Deployment of this name."""
        self._rollouts.pop((manifest["metadata"]["namespace"], manifest["metadata"]["name"]), None)

    def step(self) -> None:
        """Act on each Deployment once."""
        for _, rollout in self._all():
            replicas, template = rollout.spec["replicas"], rollout.spec["template"]
            if not self.observes:
                continue
            if rollout.observed < rollout.generation:
                rollout.observed = rollout.generation
                if rollout.template != template:
                    rollout.template = template
                    rollout.outdated, rollout.updated = rollout.outdated + rollout.updated, SURGE
            elif self.new_pods_start:
                rollout.outdated = 0
            if not rollout.outdated:
                rollout.updated = replicas

    def bodies(self) -> list[dict[str, Any]]:
        """All Deployments with `metadata.generation` and a status in which all pods but those of a
        rollout are ready."""
        return [_body(manifest, rollout) for manifest, rollout in self._all()]

    def _all(self) -> list[tuple[Manifest, _Rollout]]:
        there = [one for (kind, _, _), one in self._children.items() if kind == "Deployment"]
        return [(manifest, self._rollout(manifest)) for manifest in there]

    def _rollout(self, manifest: Manifest) -> _Rollout:
        """The rollout of a Deployment, which knows about its newest spec."""
        key = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        spec = deepcopy(manifest["spec"])
        made = _Rollout(spec=spec, template=spec["template"], updated=spec["replicas"])
        rollout = self._rollouts.setdefault(key, made)
        if rollout.spec != spec:
            rollout.spec = spec
            rollout.generation += 1
        return rollout


def _body(manifest: Manifest, rollout: _Rollout) -> dict[str, Any]:
    status = {
        "observedGeneration": rollout.observed,
        "replicas": rollout.updated + rollout.outdated,
        "updatedReplicas": rollout.updated,
        "readyReplicas": rollout.outdated or rollout.updated,
    }
    metadata = manifest["metadata"] | {"generation": rollout.generation}
    return deepcopy(manifest | {"metadata": metadata, "status": status})
