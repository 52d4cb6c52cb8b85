"""Kueue's Workload of a run: the resources that it requests, and what Kueue decided about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from agentrl_components.spec import AgentRLRun, Compute
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import metadata as owned
from agentrl_operator.manifests.labels import FINGERPRINT
from agentrl_operator.manifests.metadata import Manifest, metadata
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo, own_tolerations
from agentrl_pipelines.platform.pod_sets import PodSet, pod_sets, shared_pod_sets

GROUP, VERSION, PLURAL = "kueue.x-k8s.io", "v1beta2", "workloads"
PART = "workload"
"""Part of its name, see `Resource.child`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """The WorkloadPriorityClass of a run."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Workload as Kueue shows it."""

    fingerprint: str
    """Hash of the resources that it requests."""
    admitted: bool
    """The run may work: admitted, neither evicted nor being deleted."""
    reserved: bool
    """Quota is reserved for it."""
    evicted: bool
    """Kueue wants the quota back."""
    started: bool
    """The condition PodsReady is true. If it stays false for long, Kueue evicts the run."""
    finished: bool
    """The condition Finished is true."""
    message: str
    """Why it is or is not admitted, in Kueue's words."""
    priority_class: str | None = None
    """The WorkloadPriorityClass that it names."""
    flavors: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Names of the ResourceFlavors that Kueue assigned, by pod set."""
    check_updates: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """Node constraints and pod metadata from admission checks, by pod set."""


def name(resource: Resource) -> str:
    """The name of a run's Workload."""
    return resource.child(PART)


def manifest(resource: Resource, run: AgentRLRun, priority: Priority | None = None) -> Manifest:
    """The Workload that requests the most that a phase of the run needs at any time."""
    annotations = {"annotations": {FINGERPRINT: fingerprint(run)}}
    spec = _spec(run, shared_pod_sets(run))
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": metadata(resource, PART, {}) | annotations,
        "spec": spec | (priority_fields(priority) if priority is not None else {}),
    }


def priority_fields(priority: Priority | None) -> Manifest:
    """The fields of a Workload's spec that hold its priority, as a merge patch: None removes
    them."""
    if priority is None:
        return {"priorityClassRef": None, "priority": None}
    reference = {"group": GROUP, "kind": "WorkloadPriorityClass", "name": priority.name}
    return {"priorityClassRef": reference, "priority": priority.value}


def fingerprint(run: AgentRLRun) -> str:
    """A hash of the requested resources. The priority is not in it, because it may change while the
    run is working."""
    return owned.fingerprint(_spec(run, shared_pod_sets(run)))


def is_current(found: Workload, run: AgentRLRun) -> bool:
    """Whether a Workload requests what the run needs. That of an earlier operator, with a pod set
    for each environment, does so too: it is kept, or the run would have to queue again."""
    earlier = owned.fingerprint(_spec(run, pod_sets(run)))
    return found.fingerprint in (fingerprint(run), earlier)


def _spec(run: AgentRLRun, requested: Iterable[PodSet]) -> Manifest:
    return {
        "queueName": run.spec.compute.queue,
        "podSets": [_pod_set(one) for one in requested],
    }


def _pod_set(pods: PodSet) -> Manifest:
    # The two fields of a pod by which Kueue chooses flavors.
    placement: Manifest = {
        "nodeSelector": dict(pods.owner.node_selector),
        "tolerations": own_tolerations(pods.owner),
    }
    if not isinstance(pods.owner, Compute):
        # Without empty fields, as earlier operators wrote it: the fingerprint stays the same.
        placement = {name: value for name, value in placement.items() if value}
    containers = [{"name": "main", "resources": {"requests": dict(pods.requests)}}]
    template = {"spec": {"containers": containers, **placement}}
    return {"name": pods.name, "count": pods.count, "template": template}


def read(body: Mapping[str, Any]) -> Workload:
    """The Workload in an object of the Kubernetes API."""
    meta = body["metadata"]
    evicted, reserved = is_true(body, "Evicted"), is_true(body, "QuotaReserved")
    eviction = condition(body, "Evicted")
    deactivated = evicted and str(eviction["reason"]).startswith("Deactivated")
    deleted = meta.get("deletionTimestamp") is not None
    return Workload(
        fingerprint=(meta.get("annotations") or {}).get(FINGERPRINT, ""),
        admitted=is_true(body, "Admitted") and not evicted and not deleted,
        reserved=reserved,
        evicted=evicted,
        started=is_true(body, "PodsReady"),
        finished=is_true(body, "Finished"),
        message=(
            str(eviction["message"])
            if deactivated or (evicted and reserved)
            else _admission_message(body)
        ),
        priority_class=((body.get("spec") or {}).get("priorityClassRef") or {}).get("name"),
        flavors=_flavors(body),
        check_updates=_check_updates(body),
    )


def _flavors(body: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The distinct flavors of each pod set, in the order of the resources that they are for."""
    assigned = (status(body).get("admission") or {}).get("podSetAssignments") or ()
    return {
        one["name"]: tuple(dict.fromkeys(name for _, name in sorted(one["flavors"].items())))
        for one in assigned
        if one.get("flavors")
    }


def _check_updates(body: Mapping[str, Any]) -> dict[str, PodSetInfo]:
    """The podSetUpdates of all admission checks, in their order. Kueue evicts a Workload whose
    checks contradict each other."""
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


def _admission_message(body: Mapping[str, Any]) -> str:
    """Why quota is or is not reserved; once it is, which admission checks are pending."""
    reserved = is_true(body, "QuotaReserved")
    pending = [
        f"{one['name']}: {one.get('message') or one['state']}"
        for one in status(body).get("admissionChecks") or ()
        if one["state"] != "Ready" and reserved
    ]
    if pending:
        return f"waiting for admission checks: {'; '.join(pending)}"
    return str(condition(body, "QuotaReserved").get("message", "")) or "waiting for Kueue"


def status(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of a Workload; empty if it has none yet."""
    return body.get("status") or {}


def condition(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of this type; empty if there is none."""
    conditions = status(body).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def is_true(body: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of this type is True."""
    return bool(condition(body, kind).get("status") == "True")
