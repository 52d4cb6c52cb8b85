"""Reads how many sessions the servers of environments with `scaling` have open.

The samples of the last minutes are kept in memory: after a restart of the operator, servers are
removed `scaling.downAfterS` later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from agentrl_operator.api.resource import Resource
from agentrl_operator.clients.fleet import Fleet, ServerPod
from agentrl_operator.errors import KubernetesError, ServerMetricsError
from agentrl_operator.manifests.autoscaling import METRIC
from agentrl_operator.planning.observation import FleetLoad, FleetSample, ServerLoad

logger = logging.getLogger(__name__)

SAMPLE_PERIOD_S = 15.0
"""Interval of two samples of an environment, that of Kubernetes' own autoscaler."""
METRIC_PERIOD_S = 60.0
"""Interval after which the cluster is asked again whether it serves the metric."""
AUTOSCALER_PERIOD_S = 300.0
"""Interval after which an autoscaler is created again that somebody may have deleted."""


class FleetReader:
    """Reads the load of the environment servers of runs."""

    def __init__(self, fleet: Fleet, clock: Callable[[], float]) -> None:
        self._fleet = fleet
        self._clock = clock
        self._metric: tuple[float, bool] = (float("-inf"), False)
        self._sampled_at: dict[str, float] = {}
        self._applied_at: dict[str, float] = {}
        self._samples: dict[str, dict[str, list[tuple[float, tuple[ServerLoad, ...]]]]] = {}
        """Time and loads, by uid and environment."""

    def forget(self, uid: str) -> None:
        """Drop what is kept of a run that was deleted."""
        for kept in (self._sampled_at, self._applied_at, self._samples):
            kept.pop(uid, None)

    async def read(self, resource: Resource) -> Mapping[str, FleetLoad]:
        """The load of each environment with `scaling`, by name. While Kubernetes does not show it,
        no sample is added, and the last answer about the metric counts."""
        run = resource.run
        environments = run.spec.environments if run is not None else ()
        scaled = {one.name: one.scaling for one in environments if one.scaling is not None}
        if not scaled:
            return {}
        now, uid = self._clock(), resource.uid
        if await self._metric_is_served(now):
            due = now - self._applied_at.get(uid, float("-inf")) >= AUTOSCALER_PERIOD_S
            if due:
                self._applied_at[uid] = now
            return dict.fromkeys(scaled, FleetLoad(autoscaler="due" if due else "there"))
        if now - self._sampled_at.get(uid, float("-inf")) >= SAMPLE_PERIOD_S:
            self._sampled_at[uid] = now
            pods = await self._ready_pods(resource)
            kept = self._samples.setdefault(uid, {})
            for name, scaling in scaled.items():
                loads = await self._loads([one for one in pods if one.environment == name])
                samples = kept.setdefault(name, [])
                if loads:
                    samples.append((now, loads))
                # The first sample may be older than the window: it shows that all of it is known.
                while len(samples) > 1 and now - samples[1][0] >= scaling.down_after_s:
                    del samples[0]
        return {
            name: FleetLoad(
                samples=tuple(
                    FleetSample(age_s=now - at, loads=loads)
                    for at, loads in self._samples.get(uid, {}).get(name, ())
                )
            )
            for name in scaled
        }

    async def _metric_is_served(self, now: float) -> bool:
        asked_at, served = self._metric
        if now - asked_at >= METRIC_PERIOD_S:
            try:
                served = await self._fleet.serves_metric(METRIC)
            except KubernetesError as error:
                # The API of metrics is served by an adapter in the cluster, which may be down.
                logger.warning("whether the metric %s is served: %s", METRIC, error)
            self._metric = (now, served)
        return served

    async def _ready_pods(self, resource: Resource) -> Sequence[ServerPod]:
        try:
            return await self._fleet.ready_pods(resource.namespace, resource.uid)
        except KubernetesError as error:
            logger.warning("%s/%s: servers: %s", resource.namespace, resource.name, error)
            return ()

    async def _loads(self, pods: Sequence[ServerPod]) -> tuple[ServerLoad, ...]:
        """The loads of these servers. A server that does not answer counts as full. The result is
        empty if none answers."""
        counts = await asyncio.gather(*(self._sessions(pod) for pod in pods))
        capacities = [count[1] for count in counts if count is not None]
        if not capacities:
            return ()
        full = (max(capacities), max(capacities))
        return tuple(
            ServerLoad(pod=pod.name, sessions=sessions, capacity=max(1, capacity))
            for pod, (sessions, capacity) in zip(
                pods, (count or full for count in counts), strict=True
            )
        )

    async def _sessions(self, pod: ServerPod) -> tuple[int, int] | None:
        try:
            return await self._fleet.sessions(pod)
        except ServerMetricsError as error:
            logger.warning("%s", error)
            return None
