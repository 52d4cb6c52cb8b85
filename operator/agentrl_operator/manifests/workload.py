"""Kueue's Workload of a run: what it asks for, and what Kueue says of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests.environment_server import FINGERPRINT, Manifest, metadata
from agentrl_pipelines.labels import GPU_RESOURCE
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.kueue_pods import POD_SETS, UNCONSTRAINED, PodSetInfo

GROUP, VERSION, PLURAL = "kueue.x-k8s.io", "v1beta2", "workloads"
PART = "workload"
"""Names it among what the run owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """A run's place among others: the WorkloadPriorityClass that it names."""

    name: str
    value: int
    """As the class says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One of them, as Kueue shows it."""

    fingerprint: str
    """Of what it asks for."""
    admitted: bool
    """The run may work."""
    reserved: bool
    """Quota is held for it."""
    evicted: bool
    """Kueue wants the quota back."""
    started: bool
    """Kueue knows that the run is at work. Where it does not for long, it evicts."""
    finished: bool
    """Kueue knows that the run is over."""
    says: str
    """Why it is or is not admitted, in Kueue's words."""
    priority_class: str | None = None
    """The WorkloadPriorityClass that it names."""
    flavors: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The names of those that Kueue assigned, by pod set."""
    checked: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """What admission checks add to the pods, by pod set."""


def name(resource: Resource) -> str:
    """Of a run's Workload."""
    return resource.child(PART)


def manifest(resource: Resource, run: AgentRLRun, priority: Priority | None = None) -> Manifest:
    """The Workload that asks for what a phase of the run needs at its widest."""
    made = metadata(resource, PART, {})
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": made | {"annotations": {FINGERPRINT: fingerprint(run)}},
        "spec": _spec(run) | (prioritized(priority) if priority is not None else {}),
    }


def prioritized(priority: Priority | None) -> Manifest:
    """The fields of a Workload's spec that tell its priority, as a merge patch has them."""
    if priority is None:
        return {"priorityClassRef": None, "priority": None}
    named = {"group": GROUP, "kind": "WorkloadPriorityClass", "name": priority.name}
    return {"priorityClassRef": named, "priority": priority.value}


def fingerprint(run: AgentRLRun) -> str:
    """Changes with what the run asks for; its priority may change while it works."""
    return hashlib.sha256(json.dumps(_spec(run), sort_keys=True).encode()).hexdigest()[:16]


def _spec(run: AgentRLRun) -> Manifest:
    return {"queueName": run.spec.compute.queue, "podSets": [*_stages(run), *_servers(run)]}


def _stages(run: AgentRLRun) -> list[Manifest]:
    """Pods that hold the model side by side. Evaluation follows them and asks for no more; what
    else runs in a phase is small and is not counted."""
    compute = run.spec.compute
    requests = {"cpu": compute.cpu, "memory": compute.memory}
    if compute.gpus:
        requests[GPU_RESOURCE] = str(compute.gpus)
    # Kueue picks flavors by these two.
    where = {
        "nodeSelector": dict(compute.node_selector),
        "tolerations": [one.model_dump(exclude_none=True) for one in compute.tolerations],
    }
    return [_pod_set(stage, 1, requests, where) for stage in POD_SETS[compute.placement]]


def _servers(run: AgentRLRun) -> list[Manifest]:
    return [
        _pod_set(servers(one), one.replicas, {"cpu": one.cpu, "memory": one.memory})
        for one in run.spec.environments
        if resolve.is_managed(one)
    ]


def servers(environment: Environment) -> str:
    """The pod set of an environment's servers."""
    return f"environment-{environment.name}"


def _pod_set(
    name: str, count: int, requests: Mapping[str, str], where: Mapping[str, Any] | None = None
) -> Manifest:
    containers = [{"name": "main", "resources": {"requests": dict(requests)}}]
    template = {"spec": {"containers": containers, **(where or {})}}
    return {"name": name, "count": count, "template": template}


def read(body: Mapping[str, Any]) -> Workload:
    """The Workload in an object of the Kubernetes API."""
    about = body["metadata"]
    evicted, reserved = holds(body, "Evicted"), holds(body, "QuotaReserved")
    eviction = condition(body, "Evicted")
    idle = evicted and str(eviction["reason"]).startswith("Deactivated")
    deleted = about.get("deletionTimestamp") is not None
    return Workload(
        fingerprint=(about.get("annotations") or {}).get(FINGERPRINT, ""),
        admitted=holds(body, "Admitted") and not evicted and not deleted,
        reserved=reserved,
        evicted=evicted,
        started=holds(body, "PodsReady"),
        finished=holds(body, "Finished"),
        says=str(eviction["message"]) if idle or (evicted and reserved) else _words(body),
        priority_class=((body.get("spec") or {}).get("priorityClassRef") or {}).get("name"),
        flavors=_flavors(body),
        checked=_checked(body),
    )


def _flavors(body: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Each once, in the order of the resources that they are for."""
    assigned = (status(body).get("admission") or {}).get("podSetAssignments") or ()
    return {
        one["name"]: tuple(dict.fromkeys(name for _, name in sorted(one["flavors"].items())))
        for one in assigned
        if one.get("flavors")
    }


def _checked(body: Mapping[str, Any]) -> dict[str, PodSetInfo]:
    """Of every check, in their order; Kueue evicts where two contradict each other."""
    found: dict[str, PodSetInfo] = {}
    for check in status(body).get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            added = PodSetInfo(
                node_selector=update.get("nodeSelector") or {},
                tolerations=tuple(update.get("tolerations") or ()),
                pod_labels=update.get("labels") or {},
                pod_annotations=update.get("annotations") or {},
            )
            found[update["name"]] = found.get(update["name"], UNCONSTRAINED).merged_with(added)
    return found


def _words(body: Mapping[str, Any]) -> str:
    """Why the quota is or is not reserved, or what is still checked."""
    waits = not holds(body, "QuotaReserved")
    checks = [
        f"{one['name']}: {one.get('message') or one['state']}"
        for one in status(body).get("admissionChecks") or ()
        if one["state"] != "Ready" and not waits
    ]
    if checks:
        return f"waiting for admission checks: {'; '.join(checks)}"
    told = condition(body, "QuotaReserved").get("message", "")
    return str(told) or "waiting for Kueue"


def status(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a Workload; empty where there is none yet."""
    return body.get("status") or {}


def condition(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Of this type; empty where there is none."""
    found = status(body).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), {})


def holds(body: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of this type is true."""
    return bool(condition(body, kind).get("status") == "True")
