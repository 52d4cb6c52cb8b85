"""Looks at what Kueue says of runs: whether they are admitted, on which nodes, and how urgent they
may be. All of it is asked anew: an operator that was started a moment ago sees the same."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.protocols import Kueue
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.workload import Priority, Workload
from agentrl_operator.planning.observation import Unknown, may_have_workload
from agentrl_pipelines.labels import PRIORITY_LABEL
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo

Answer = TypeVar("Answer")
FLAVOR_LOOK_S = 10.0
"""Between two looks at a flavor: many runs share a few, which hardly ever change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What Kueue says of a run."""

    workload: Workload | None = None
    """As a whole. None: there is no Workload, or not looked."""
    nodes: Mapping[str, PodSetInfo] | Unknown = field(default_factory=lambda: MappingProxyType({}))
    """That it chose for the run's pods, by pod set."""
    priority: Priority | Unknown | None = None
    """That the Workload should have and has not; Unknown where there is no such class."""


class Quotas:
    """Of all runs."""

    def __init__(self, kueue: Kueue, platform: Platform, clock: Callable[[], float]) -> None:
        self._kueue = kueue
        self._platform = platform
        self._clock = clock
        self._flavors: dict[str, tuple[float, PodSetInfo]] = {}

    async def look(self, resource: Resource, status: Status) -> Quota:
        """What is to be seen now. Raises `KubernetesError` for what may pass by itself."""
        if not may_have_workload(resource, status, self._platform):
            return Quota()
        body = await self._kueue.get_workload(resource.namespace, workload.name(resource))
        seen = workload.read(body) if body is not None else None
        if status.finished or resource.deleted_at is not None:
            return Quota(workload=seen)
        nodes = await _answered(self._nodes(seen))
        priority = await _answered(self._priority(resource, seen))
        return Quota(workload=seen, nodes=nodes, priority=priority)

    async def _nodes(self, seen: Workload | None) -> Mapping[str, PodSetInfo] | Unknown:
        if seen is None or not seen.admitted:
            return {}
        for name in {one for names in seen.flavors.values() for one in names}:
            read, _ = self._flavors.get(name, (float("-inf"), None))
            if self._clock() - read < FLAVOR_LOOK_S:
                continue
            body = await self._kueue.get_resource_flavor(name)
            if body is None:
                return Unknown(message=f"Kueue: there is no ResourceFlavor {name}")
            self._flavors[name] = (self._clock(), _nodes(body))
        return {
            pod_set: _together(
                [self._flavors[name][1] for name in seen.flavors.get(pod_set, ())]
                + [seen.check_updates.get(pod_set, UNCONSTRAINED)]
            )
            for pod_set in {*seen.flavors, *seen.check_updates}
        }

    async def _priority(
        self, resource: Resource, seen: Workload | None
    ) -> Priority | Unknown | None:
        named = resource.priority_class
        has_it = seen is not None and seen.priority_class == named
        if named is None or has_it or resource.queue is None:
            return None
        body = await self._kueue.get_priority_class(named)
        if body is None:
            return Unknown(
                message=f"metadata.labels.{PRIORITY_LABEL}: there is no WorkloadPriorityClass "
                f"{named}; make it, or correct the label"
            )
        return Priority(name=named, value=body["value"])


async def _answered(question: Awaitable[Answer]) -> Answer | Unknown:
    """The answer; where there will be none as long as nobody acts, why."""
    try:
        return await question
    except KubernetesError as error:
        if error.retryable:
            raise
        return Unknown(message=str(error))


def _nodes(flavor: Mapping[str, Any]) -> PodSetInfo:
    spec = flavor.get("spec") or {}
    return PodSetInfo(
        node_selector=spec.get("nodeLabels") or {}, tolerations=tuple(spec.get("tolerations") or ())
    )


def _together(kinds: Iterable[PodSetInfo]) -> PodSetInfo:
    """Nodes that are of each kind: one flavor's for devices, say, another's for the rest."""
    return functools.reduce(PodSetInfo.merged_with, kinds, UNCONSTRAINED)
