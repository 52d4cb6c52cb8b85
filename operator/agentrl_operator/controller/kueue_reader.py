"""Reads what Kueue decided about a run: its admission, the nodes for its pods, and its priority.

Every reconciliation reads it again, so a restarted operator sees the same.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.addons.kueue import Kueue
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests import workload
from agentrl_operator.manifests.workload import Priority, Workload
from agentrl_operator.planning.observation import Unknown, may_have_workload
from agentrl_pipelines.labels import PRIORITY_LABEL
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo

Value = TypeVar("Value")
FLAVOR_TTL_S = 10.0
"""How long a ResourceFlavor is cached: many runs share a few, which hardly ever change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueObservation:
    """What Kueue decided about a run."""

    workload: Workload | None = None
    """None: it does not exist, or was not read."""
    nodes: Mapping[str, PodSetInfo] | Unknown = field(default_factory=lambda: MappingProxyType({}))
    """Where Kueue assigned the run's pods, by pod set. Unknown: Kubernetes refuses to show it."""
    priority: Priority | Unknown | None = None
    """The priority that the Workload should have and lacks. Unknown: the class does not exist."""


class KueueReader:
    """Reads the Kueue objects of runs."""

    def __init__(self, kueue: Kueue, platform: Platform, clock: Callable[[], float]) -> None:
        self._kueue = kueue
        self._platform = platform
        self._clock = clock
        self._flavors: dict[str, tuple[float, PodSetInfo]] = {}

    async def read(self, resource: Resource, status: Status) -> KueueObservation:
        """What Kueue has decided by now.

        Raises:
            KubernetesError: A request failed and may succeed later without anybody acting, or
                Kubernetes refuses to show the Workload of a run that may work.
        """
        if not may_have_workload(resource, status, self._platform):
            return KueueObservation()
        try:
            body = await self._kueue.get_workload(resource.namespace, workload.name(resource))
        except KubernetesError as error:
            # A run in a namespace whose Workloads the operator may not read is not accepted, and
            # has to be told so.
            if error.retryable or resource.run is not None or status.start_time is not None:
                raise
            return KueueObservation(nodes=Unknown(message=str(error)))
        found = workload.read(body) if body is not None else None
        if status.finished or resource.deleted_at is not None:
            return KueueObservation(workload=found)
        nodes = await _value_or_unknown(self._nodes(found))
        priority = await _value_or_unknown(self._priority(resource, found))
        return KueueObservation(workload=found, nodes=nodes, priority=priority)

    async def _nodes(self, found: Workload | None) -> Mapping[str, PodSetInfo] | Unknown:
        if found is None or not found.admitted:
            return {}
        for name in {one for names in found.flavors.values() for one in names}:
            read, _ = self._flavors.get(name, (float("-inf"), None))
            if self._clock() - read < FLAVOR_TTL_S:
                continue
            body = await self._kueue.get_resource_flavor(name)
            if body is None:
                return Unknown(message=f"Kueue: there is no ResourceFlavor {name}")
            self._flavors[name] = (self._clock(), _flavor_nodes(body))
        return {
            pod_set: _combined(
                [self._flavors[name][1] for name in found.flavors.get(pod_set, ())]
                + [found.check_updates.get(pod_set, UNCONSTRAINED)]
            )
            for pod_set in {*found.flavors, *found.check_updates}
        }

    async def _priority(
        self, resource: Resource, found: Workload | None
    ) -> Priority | Unknown | None:
        wanted = resource.priority_class
        up_to_date = found is not None and found.priority_class == wanted
        if wanted is None or up_to_date or resource.queue is None:
            return None
        body = await self._kueue.get_priority_class(wanted)
        if body is None:
            return Unknown(
                message=f"metadata.labels.{PRIORITY_LABEL}: there is no WorkloadPriorityClass "
                f"{wanted}; create it, or correct the label"
            )
        return Priority(name=wanted, value=body["value"])


async def _value_or_unknown(request: Awaitable[Value]) -> Value | Unknown:
    """The result of a request. Unknown: it fails, and will until somebody changes something."""
    try:
        return await request
    except KubernetesError as error:
        if error.retryable:
            raise
        return Unknown(message=str(error))


def _flavor_nodes(flavor: Mapping[str, Any]) -> PodSetInfo:
    spec = flavor.get("spec") or {}
    return PodSetInfo(
        node_selector=spec.get("nodeLabels") or {}, tolerations=tuple(spec.get("tolerations") or ())
    )


def _combined(constraints: Iterable[PodSetInfo]) -> PodSetInfo:
    """The constraints of several flavors together, such as those for devices and for CPU."""
    return functools.reduce(PodSetInfo.merged_with, constraints, UNCONSTRAINED)
