"""Environment servers whose number changes: their pods, their load and their autoscalers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrl_operator.clients.http import HttpClient
from agentrl_operator.clients.kubernetes_connection import Request
from agentrl_operator.errors import ServerMetricsError
from agentrl_operator.manifests.labels import ENVIRONMENT, RUN_UID
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.labels import ENVIRONMENT_PORT

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation of a pod. When a Deployment is scaled down, those with the lowest values are removed
first."""
TIMEOUT_S = 2.0
LONGEST_METRICS = 1 << 18
"""Bytes. The metrics of a server take a few thousand. An environment server is not trusted: it may
execute what a model wrote, and many are asked at the same time."""
MOST_SESSIONS = 1_000_000
_COUNT = re.compile(
    r"^(agentrl_env_sessions(?:_capacity)?)(?:\{.*\})?[ \t]+(\S{1,30})(?=\s|$)", re.MULTILINE
)
"""A sample of one of the two metrics that are needed. The parser of prometheus_client reads all
samples, at about a second for each megabyte, and the event loop waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPod:
    """A pod of an environment."""

    name: str
    environment: str
    address: str
    """Its IP address."""


class Fleet(Protocol):
    """Environment servers whose number changes. Every method may raise `KubernetesError`, and one
    that writes `NotLeaderError`."""

    async def ready_pods(self, namespace: str, uid: str) -> Sequence[ServerPod]:
        """The pods of the run with this uid that are ready and not about to stop."""
        ...

    async def sessions(self, pod: ServerPod) -> tuple[int, int]:
        """Open sessions of a server and their maximum number. Raises `ServerMetricsError` if the
        server does not answer."""
        ...

    async def serves_metric(self, metric: str) -> bool:
        """Whether the custom metrics API of the cluster has this metric of pods."""
        ...

    async def scale(self, namespace: str, name: str, replicas: int) -> None:
        """Set the number of replicas of a Deployment, if it exists."""
        ...

    async def set_deletion_costs(self, namespace: str, costs: Mapping[str, int]) -> None:
        """Set the deletion costs of pods, by name. Pods with the lowest cost are removed first."""
        ...

    async def apply_autoscaler(self, manifest: Manifest) -> None:
        """Create a HorizontalPodAutoscaler or update the one of its name."""
        ...

    async def delete_autoscaler(self, namespace: str, name: str) -> None:
        """Delete a HorizontalPodAutoscaler if it exists."""
        ...


class FleetApi:
    """`Fleet` of a real cluster."""

    def __init__(self, request: Request, url: Callable[[str], str] | None = None) -> None:
        """`url` is the address of the server of a pod with an IP address."""
        self._request = request
        self._url = url or _url
        self._http = HttpClient(
            "environment server",
            ServerMetricsError,
            timeout_s=TIMEOUT_S,
            proxied=False,
            longest_body=LONGEST_METRICS,
        )
        self.close = self._http.close

    async def ready_pods(self, namespace: str, uid: str) -> Sequence[ServerPod]:
        query = f"labelSelector={RUN_UID}%3D{uid}%2C{ENVIRONMENT}"
        found = await self._request("GET", f"api/v1/namespaces/{namespace}/pods?{query}")
        return [
            ServerPod(
                name=item["metadata"]["name"],
                environment=item["metadata"]["labels"][ENVIRONMENT],
                address=item["status"]["podIP"],
            )
            for item in found.get("items", ())
            if "deletionTimestamp" not in item["metadata"] and _is_ready(item)
        ]

    async def sessions(self, pod: ServerPod) -> tuple[int, int]:
        url = f"{self._url(pod.address)}/metrics"
        name = f"/metrics of {pod.name}"
        response = await self._http.send("GET", url, name=name)
        if response.status != 200:
            raise self._http.rejection(response, "GET", name)
        try:
            values = dict(_COUNT.findall(response.body.decode(errors="replace")))
            open_sessions, capacity = (
                _count(values[one])
                for one in ("agentrl_env_sessions", "agentrl_env_sessions_capacity")
            )
        except (ValueError, KeyError) as error:
            raise ServerMetricsError(f"environment server: GET {name}: {error!r}") from None
        return open_sessions, capacity

    async def serves_metric(self, metric: str) -> bool:
        for version in ("v1beta2", "v1beta1"):
            path = f"apis/custom.metrics.k8s.io/{version}"
            found = await self._request("GET", path, ignore_not_found=True)
            names = {one["name"] for one in found.get("resources", ())}
            if f"pods/{metric}" in names:
                return True
        return False

    async def scale(self, namespace: str, name: str, replicas: int) -> None:
        path = f"apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        change = {"spec": {"replicas": replicas}}
        await self._request("PATCH", path, change, ignore_not_found=True, parse=False)

    async def set_deletion_costs(self, namespace: str, costs: Mapping[str, int]) -> None:
        for name, cost in costs.items():
            path = f"api/v1/namespaces/{namespace}/pods/{name}"
            change = {"metadata": {"annotations": {DELETION_COST: json.dumps(cost)}}}
            await self._request("PATCH", path, change, ignore_not_found=True, parse=False)

    async def apply_autoscaler(self, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        path = _autoscalers(metadata["namespace"])
        named = f"{path}/{metadata['name']}"
        if not await self._request("PATCH", named, manifest, ignore_not_found=True):
            await self._request("POST", path, manifest, parse=False)

    async def delete_autoscaler(self, namespace: str, name: str) -> None:
        path = f"{_autoscalers(namespace)}/{name}"
        await self._request("DELETE", path, ignore_not_found=True, parse=False)


def _count(text: str) -> int:
    """A number of sessions. Raises ValueError for any other text or number."""
    value = float(text)
    if not 0 <= value <= MOST_SESSIONS:
        raise ValueError(f"{text} is no number of sessions")
    return int(value)


def _url(address: str) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{ENVIRONMENT_PORT}"


def _autoscalers(namespace: str) -> str:
    return f"apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"


def _is_ready(pod: Manifest) -> bool:
    status = pod.get("status") or {}
    ready = (one["status"] for one in status.get("conditions") or () if one["type"] == "Ready")
    return bool(status.get("podIP")) and "True" in ready
