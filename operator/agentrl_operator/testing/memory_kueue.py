"""Kueue in memory: Workloads, and what Kueue and its administrators do to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.environment_server import Manifest
from agentrl_operator.manifests.workload import holds

Children = dict[tuple[str, str, str], Manifest]
STAMP = "2026-01-01T00:00:00Z"


class MemoryKueue:
    """All Workloads among a cluster's objects. There is quota for each; the test admits."""

    def __init__(self, children: Children, asked: Callable[[], None]) -> None:
        self.flavors: dict[str, Manifest] = {}
        """Specs of ResourceFlavors, by name."""
        self.classes: dict[str, int] = {}
        """Values of WorkloadPriorityClasses, by name."""
        self.assigned: dict[str, str] = {}
        """The flavor that the pods of a set get, for every resource; where none, they get none."""
        self._children = children
        self._asked = asked
        self._version = 0

    async def workload(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        self._asked()
        return deepcopy(self.get(namespace, name))

    async def tell(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        self._asked()
        self.patch(namespace, name, change)

    async def prioritize(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        self._asked()
        body = self.get(namespace, name)
        if body is None:
            return
        added = ("priorityClassRef" in body["spec"]) != (change["priorityClassRef"] is not None)
        if added and holds(body, "QuotaReserved"):
            raise KubernetesError("Kubernetes: priorityClassRef is immutable", status=422)
        merged = {**body["spec"], **change}
        body["spec"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)

    async def remove(self, namespace: str, name: str) -> None:
        self._asked()
        self._children.pop(("Workload", namespace, name), None)

    async def flavor(self, name: str) -> Mapping[str, Any] | None:
        self._asked()
        found = self.flavors.get(name)
        return {"metadata": {"name": name}, "spec": found} if found is not None else None

    async def priority_class(self, name: str) -> Mapping[str, Any] | None:
        self._asked()
        found = self.classes.get(name)
        return {"metadata": {"name": name}, "value": found} if found is not None else None

    def get(self, namespace: str, name: str) -> Manifest | None:
        """One of them, as the API shows it."""
        body = self._children.get(("Workload", namespace, name))
        if body is not None:
            body["metadata"].setdefault("resourceVersion", "0")
        return body

    def patch(self, namespace: str, name: str, change: Mapping[str, Any]) -> None:
        """Merge into a status; refused where the version is another."""
        body = self.get(namespace, name)
        if body is None:
            return
        if change["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise KubernetesError("Kubernetes: the object has been modified", status=409)
        merged = {**body.get("status", {}), **change["status"]}
        body["status"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)

    def admit(self) -> None:
        """Everything that waits and may be admitted is."""
        for body in self._workloads():
            idle = not holds(body, "QuotaReserved") and not holds(body, "Finished")
            if idle and body["spec"].get("active", True):
                body.setdefault("status", {})["admission"] = self._admission(body)
                self._say(body, "QuotaReserved", "True", "QuotaReserved", "reserved in all")
                self._say(body, "Evicted", "False", "QuotaReserved", "")
                self._say(body, "Admitted", "True", "Admitted", "The workload is admitted")

    def evict(self, reason: str = "Preempted", message: str = "Preempted to make room") -> None:
        """Ask everything that is admitted for its quota."""
        for body in self._workloads():
            if holds(body, "Admitted") and not holds(body, "Finished"):
                self._say(body, "Evicted", "True", reason, message)

    def activate(self, active: bool) -> None:
        """An administrator lets Workloads work, or does not."""
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

    def _say(self, body: Manifest, kind: str, status: str, reason: str, message: str) -> None:
        conditions = body.setdefault("status", {}).setdefault("conditions", [])
        kept = [one for one in conditions if one["type"] != kind]
        made = {"type": kind, "status": status, "reason": reason, "message": message}
        body["status"]["conditions"] = [*kept, made | {"lastTransitionTime": STAMP}]
        self._touch(body)

    def _touch(self, body: Manifest) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
