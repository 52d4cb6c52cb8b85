"""Kueue in memory: Workloads, and the actions of Kueue and its administrators on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.manifests.workload import is_true
from agentrl_pipelines.labels import PRIORITY_LABEL, QUEUE_LABEL

Children = dict[tuple[str, str, str], Manifest]
STAMP = "2026-01-01T00:00:00Z"


class MemoryKueue:
    """`Kueue` in memory, over the objects of a `MemoryCluster`. Quota is unlimited; a Workload is
    admitted when `admit` is called."""

    def __init__(self, children: Children, check: Callable[[], None]) -> None:
        self.flavors: dict[str, Manifest] = {}
        """Specs of ResourceFlavors, by name."""
        self.classes: dict[str, int] = {}
        """Values of WorkloadPriorityClasses, by name."""
        self.assigned: dict[str, str] = {}
        """The flavor that is assigned to a pod set for every resource, by name of the pod set."""
        self._children = children
        self._check = check
        self._version = 0

    def check_deployment(self, before: Manifest, after: Manifest, *, ready: int) -> None:
        """Raise the error with which Kueue's webhook refuses to change a Deployment of which this
        many pods are ready, if it does."""
        old, new = before["metadata"]["labels"], after["metadata"]["labels"]
        fixed = bool(ready) or QUEUE_LABEL not in new
        moved = old.get(QUEUE_LABEL) != new.get(QUEUE_LABEL)
        ranked = (PRIORITY_LABEL in old) != (PRIORITY_LABEL in new)
        if (fixed and moved) or (ready and ranked):
            label = QUEUE_LABEL if moved else PRIORITY_LABEL
            raise KubernetesError(
                "Kubernetes: PATCH deployments: 403: admission webhook "
                f'"vdeployment.kb.io" denied the request: metadata.labels[{label}]: Invalid value: '
                f'"{new.get(label)}": field is immutable',
                status=403,
                reason="Forbidden",
                retryable=False,
            )

    async def get_workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        self._check()
        return deepcopy(self.get(namespace, name))

    async def patch_workload_status(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        self._check()
        self.patch(namespace, name, change)

    async def patch_workload_spec(
        self, namespace: str, name: str, change: Mapping[str, Any]
    ) -> None:
        self._check()
        body = self.get(namespace, name)
        if body is None:
            return
        added = ("priorityClassRef" in body["spec"]) != (change["priorityClassRef"] is not None)
        if added and is_true(body, "QuotaReserved"):
            raise KubernetesError("Kubernetes: priorityClassRef is immutable", status=422)
        merged = {**body["spec"], **change}
        body["spec"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)

    async def delete_workload(self, namespace: str, name: str) -> None:
        self._check()
        self._children.pop(("Workload", namespace, name), None)

    async def get_resource_flavor(self, name: str) -> Mapping[str, Any] | None:
        self._check()
        found = self.flavors.get(name)
        return {"metadata": {"name": name}, "spec": found} if found is not None else None

    async def get_priority_class(self, name: str) -> Mapping[str, Any] | None:
        self._check()
        found = self.classes.get(name)
        return {"metadata": {"name": name}, "value": found} if found is not None else None

    def get(self, namespace: str, name: str) -> Manifest | None:
        """A Workload; None if it does not exist."""
        body = self._children.get(("Workload", namespace, name))
        if body is not None:
            body["metadata"].setdefault("resourceVersion", "0")
        return body

    def patch(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Merge into the status of a Workload; rejected for another resourceVersion."""
        body = self.get(namespace, name)
        if body is None:
            return
        if change["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise KubernetesError("Kubernetes: the object has been modified", status=409)
        merged = {**body.get("status", {}), **change["status"]}
        body["status"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)

    def admit(self) -> None:
        """Admit every Workload that is waiting and active."""
        for body in self._workloads():
            idle = not is_true(body, "QuotaReserved") and not is_true(body, "Finished")
            if idle and body["spec"].get("active", True):
                body.setdefault("status", {})["admission"] = self._admission(body)
                self._set_condition(
                    body, "QuotaReserved", "True", "QuotaReserved", "reserved in all"
                )
                self._set_condition(body, "Evicted", "False", "QuotaReserved", "")
                self._set_condition(
                    body, "Admitted", "True", "Admitted", "The workload is admitted"
                )

    def evict(self, reason: str = "Preempted", message: str = "Preempted to make room") -> None:
        """Evict every Workload that is admitted."""
        for body in self._workloads():
            if is_true(body, "Admitted") and not is_true(body, "Finished"):
                self._set_condition(body, "Evicted", "True", reason, message)

    def activate(self, active: bool) -> None:
        """Set `spec.active` of all Workloads, as an administrator does."""
        for body in self._workloads():
            body["spec"]["active"] = active
            self._touch(body)
        if not active:
            self.evict("Deactivated", "The workload is deactivated")

    def _admission(self, body: Manifest) -> Manifest:
        names = [one["name"] for one in body["spec"]["podSets"] if one["name"] in self.assigned]
        flavors = {name: dict.fromkeys(("cpu", "memory"), self.assigned[name]) for name in names}
        assignments = [{"name": name, "flavors": flavors[name]} for name in names]
        return {"clusterQueue": "all", "podSetAssignments": assignments}

    def _workloads(self) -> list[Manifest]:
        return [body for (kind, _, _), body in self._children.items() if kind == "Workload"]

    def _set_condition(
        self, body: Manifest, kind: str, status: str, reason: str, message: str
    ) -> None:
        conditions = body.setdefault("status", {}).setdefault("conditions", [])
        kept = [one for one in conditions if one["type"] != kind]
        made = {"type": kind, "status": status, "reason": reason, "message": message}
        body["status"]["conditions"] = [*kept, made | {"lastTransitionTime": STAMP}]
        self._touch(body)

    def _touch(self, body: Manifest) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
