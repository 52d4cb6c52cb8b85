"""A world in memory: Kubernetes and KFP, as far as the operator speaks to them.

For tests, and for looking at what the operator does with nothing around it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_operator.api.resource import FINALIZER, Resource
from agentrl_operator.clients.kfp import Submission
from agentrl_operator.clients.pods import Pod
from agentrl_operator.errors import KfpError, KubernetesError
from agentrl_operator.manifests.environment_server import FINGERPRINT, Manifest
from agentrl_operator.planning.observation import KfpRun, Servers
from agentrl_operator.testing.memory_kueue import MemoryKueue

Key = tuple[str, str]


class MemoryCluster:
    """Resources, children and Events of one cluster."""

    def __init__(self, kfp: MemoryKfp) -> None:
        self.resources: dict[Key, dict[str, Any]] = {}
        self.children: dict[tuple[str, str, str], Manifest] = {}
        """By kind, namespace and name."""
        self.kueue = MemoryKueue(self.children, self._asked)
        self.events: list[tuple[str, str, str]] = []
        """Kind, reason and message."""
        self.removed: list[str] = []
        """Deployments that were there and were deleted."""
        self.told = 0
        """Writes of a status."""
        self.down = False
        self.troubles: dict[str, str] = {}
        """What the pods of a KFP run say, by its id."""
        self._kfp = kfp
        self._version = 0

    def add(self, name: str, namespace: str, uid: str, spec: Mapping[str, Any]) -> Key:
        """Create a run."""
        self.resources[namespace, name] = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "generation": 1,
                "resourceVersion": self._next(),
            },
            "spec": deepcopy(dict(spec)),
        }
        return namespace, name

    def edit(self, key: Key, **changes: Any) -> None:
        """Change fields of a run's spec."""
        body = self.resources[key]
        body["spec"] |= changes
        body["metadata"]["generation"] += 1
        self._touch(body)

    def label(self, key: Key, **labels: str | None) -> None:
        """Change labels of a run; None: take one off."""
        body = self.resources[key]
        old = body["metadata"].get("labels", {})
        kept = {name: value for name, value in (old | labels).items() if value is not None}
        body["metadata"]["labels"] = kept
        self._touch(body)

    def delete(self, key: Key, at: str) -> None:
        """Ask for a run's deletion."""
        body = self.resources[key]
        body["metadata"].setdefault("deletionTimestamp", at)
        self._touch(body)
        self._swept(key)

    def lose_status(self, key: Key, to: Mapping[str, Any] | None = None) -> None:
        """Forget a run's status, or put an older one in its place."""
        body = self.resources[key]
        body["status"] = deepcopy(dict(to or {}))
        self._touch(body)

    def body(self, key: Key) -> dict[str, Any]:
        """A copy of a run as it is now."""
        return deepcopy(self.resources[key])

    def servers(self, uid: str, *, ready: bool = True) -> dict[str, Servers]:
        """Deployments of a run as its watch would show them."""
        return {
            name: Servers(
                manifest=manifest["metadata"]["annotations"][FINGERPRINT],
                ready=manifest["spec"]["replicas"] if ready else 0,
                wanted=manifest["spec"]["replicas"],
            )
            for (kind, _, name), manifest in self.children.items()
            if kind == "Deployment" and manifest["metadata"]["ownerReferences"][0]["uid"] == uid
        }

    async def hold(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._finalizers(body, lambda old: [*old, FINALIZER])

    async def release(self, body: Mapping[str, Any]) -> None:
        self._finalizers(body, lambda old: [one for one in old if one != FINALIZER])

    async def tell(self, resource: Resource, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        self._asked()
        body = self.resources.get((resource.namespace, resource.name))
        if body is None:
            return None
        merged = {**body.get("status", {}), **status}
        body["status"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)
        self.told += 1
        return deepcopy(body)

    async def record(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._asked()
        self.events.append((kind, reason, message))

    async def create(self, manifest: Manifest) -> bool:
        self._asked()
        return self.children.setdefault(_child(manifest), manifest) is manifest

    async def apply(self, manifest: Manifest) -> None:
        self._asked()
        self.children[_child(manifest)] = manifest

    async def remove_deployment(self, namespace: str, name: str) -> None:
        self._asked()
        if self.children.pop(("Deployment", namespace, name), None) is not None:
            self.removed.append(name)

    async def remove_resource(self, resource: Resource) -> None:
        self._asked()
        if (resource.namespace, resource.name) in self.resources:
            self.delete((resource.namespace, resource.name), "2026-01-01T00:00:00Z")

    async def remove_workflow(self, namespace: str, run_id: str) -> None:
        self._asked()
        self._kfp.working.discard(run_id)

    async def workflows(self, namespace: str, run_id: str) -> Sequence[str]:
        self._asked()
        return ["Running"] if run_id in self._kfp.working else []

    async def pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        """One of each KFP run that works, and what `troubles` says of it. A run's own are named
        after it."""
        self._asked()
        named = (one for one in self._kfp.submitted if one.name.partition(":")[0] in values)
        mine = {one.run_id for one in named}
        return [
            Pod(part="train", run_id=run_id, ended=False, trouble=self.troubles.get(run_id, ""))
            for run_id in sorted(self._kfp.working & (mine | set(values)))
        ]

    async def runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        self._asked()
        for key in list(self.resources):
            yield self.body(key)

    async def deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        self._asked()
        for (kind, _, _), manifest in list(self.children.items()):
            if kind == "Deployment":
                yield deepcopy(manifest)

    async def answers(self, namespace: str | None) -> None:
        self._asked()

    def _finalizers(
        self, body: Mapping[str, Any], change: Callable[[list[str]], list[str]]
    ) -> Mapping[str, Any]:
        self._asked()
        metadata = body["metadata"]
        key = (metadata["namespace"], metadata["name"])
        found = self.resources.get(key)
        if found is None:
            return {}
        if found["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise KubernetesError("Kubernetes: the object has been modified", status=409)
        found["metadata"]["finalizers"] = change(found["metadata"].get("finalizers", []))
        self._touch(found)
        self._swept(key)
        return deepcopy(found)

    def _swept(self, key: Key) -> None:
        metadata = self.resources[key]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.resources[key]

    def _asked(self) -> None:
        if self.down:
            raise KubernetesError("Kubernetes: connection refused")

    def _touch(self, body: dict[str, Any]) -> None:
        body["metadata"]["resourceVersion"] = self._next()

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


class MemoryKfp:
    """KFP's runs. A run that was posted twice works twice, as in the real one."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.submitted: list[Submission] = []
        """In order; an id that is in it twice was posted twice."""
        self.working: set[str] = set()
        """Runs that have a Workflow and pods at work."""
        self.forgotten: list[str] = []
        """Experiments that were deleted."""
        self.down = False
        self.deaf = False
        """A start is done, but its answer gets lost."""

    async def get(self, run_id: str) -> KfpRun | None:
        self._asked()
        state = self.states.get(run_id)
        return KfpRun(state=state) if state is not None else None

    async def start(self, submission: Submission) -> None:
        self._asked()
        if submission.run_id in self.states or submission.run_id in self.working:
            return
        self.submitted.append(submission)
        self.states[submission.run_id] = "RUNNING"
        self.working.add(submission.run_id)
        if self.deaf:
            raise KfpError("KFP: POST runs: the connection was closed")

    async def terminate(self, run_id: str) -> None:
        self._asked()
        if self.states.get(run_id) == "RUNNING":
            self.states[run_id] = "CANCELING"

    async def listed(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        self._asked()
        ids = {one.run_id for one in self.submitted if one.experiment == experiment}
        return {run_id: KfpRun(state=self.states[run_id]) for run_id in ids}

    async def forget(self, experiment: str, namespace: str) -> None:
        self._asked()
        self.forgotten.append(experiment)

    def end(self, run_id: str, state: str) -> None:
        """The run's Workflow ends so."""
        self.states[run_id] = state
        self.working.discard(run_id)

    def _asked(self) -> None:
        if self.down:
            raise KfpError("KFP: connection refused")


def _child(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata["namespace"], metadata["name"]
