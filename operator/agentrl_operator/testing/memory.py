"""Kubernetes and KFP in memory, as far as the operator uses them.

For tests, and for trying the operator without a cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_components.spec.crd.status import STATUS
from agentrl_operator.api.kfp_run import KfpRun, Submission
from agentrl_operator.api.resource import FINALIZER, Resource
from agentrl_operator.clients.pods import Pod
from agentrl_operator.clients.workflows import Workflow
from agentrl_operator.errors import QUOTA_USED_UP, KfpError, KubernetesError
from agentrl_operator.manifests.labels import FINGERPRINT, RUN_UID
from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.planning.observation import Servers
from agentrl_operator.testing.memory_deployments import MemoryDeployments
from agentrl_operator.testing.memory_fleet import MemoryFleet
from agentrl_operator.testing.memory_kuberay import MemoryKubeRay
from agentrl_operator.testing.memory_kueue import MemoryKueue
from agentrl_operator.testing.memory_sandboxes import MemoryAgentSandbox
from agentrl_operator.testing.schema_check import violations
from agentrl_pipelines.labels import RUN_LABEL

Key = tuple[str, str]


class MemoryCluster:
    """`Cluster` in memory: the runs, the objects that they own and the Events of one cluster."""

    def __init__(self, kfp: MemoryKfp) -> None:
        self.resources: dict[Key, dict[str, Any]] = {}
        self.children: dict[tuple[str, str, str], Manifest] = {}
        """The objects that runs own, by kind, namespace and name."""
        self.kueue = MemoryKueue(self.children, self._check)
        self.kuberay = MemoryKubeRay(self.children, self._check)
        self.agent_sandbox = MemoryAgentSandbox(self.children, self._check)
        self.fleet = MemoryFleet(self.children, self._check)
        self.deployments = MemoryDeployments(self.children)
        self.events: list[tuple[str, str, str]] = []
        """Type, reason and message."""
        self.deleted_deployments: list[str] = []
        """Names of Deployments that existed and were deleted."""
        self.status_patches = 0
        """Number of patches of a run's status."""
        self.down = False
        """Every request fails."""
        self.pod_problems: dict[str, str] = {}
        """Problems of the pods of a KFP run, by its id."""
        self.quota_used_up = False
        """Nothing can be created, and what exists is refused as if it did not."""
        self.refusals: dict[str, str] = {}
        """Why Kubernetes does not create a pod of a KFP run, by its id. The run has no pods then.
        """
        self.server_pods: list[Pod] = []
        """The pods of environment servers, of any run."""
        self.ready_servers: dict[str, int] = {}
        """Number of ready servers, by name of the Deployment. If it is not named, all are that are
        not about to replace others."""
        self.creation_problems: dict[str, str] = {}
        """Why pods of servers cannot be created, by name of the Deployment."""
        self._kfp = kfp
        self._version = 0

    def add(self, name: str, namespace: str, uid: str, spec: Mapping[str, Any]) -> Key:
        """Create a run. Returns its key."""
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
        """Set fields of a run's spec."""
        body = self.resources[key]
        body["spec"] |= changes
        body["metadata"]["generation"] += 1
        self._touch(body)

    def label(self, key: Key, **labels: str | None) -> None:
        """Set labels of a run; None removes one."""
        body = self.resources[key]
        old = body["metadata"].get("labels", {})
        kept = {name: value for name, value in (old | labels).items() if value is not None}
        body["metadata"]["labels"] = kept
        self._touch(body)

    def delete(self, key: Key, at: str) -> None:
        """Request the deletion of a run at this time (RFC 3339)."""
        body = self.resources[key]
        body["metadata"].setdefault("deletionTimestamp", at)
        self._touch(body)
        self._sweep(key)

    def lose_status(self, key: Key, to: Mapping[str, Any] | None = None) -> None:
        """Replace the status of a run by `to`: by an older one, or by none."""
        body = self.resources[key]
        body["status"] = deepcopy(dict(to or {}))
        self._touch(body)

    def body(self, key: Key) -> dict[str, Any]:
        """A copy of a run."""
        return deepcopy(self.resources[key])

    def servers(self, uid: str) -> dict[str, Servers]:
        """The Deployments of a run as the watch shows them."""
        return {
            body["metadata"]["name"]: Servers(
                manifest=body["metadata"]["annotations"][FINGERPRINT],
                ready=body["status"]["readyReplicas"],
                wanted=body["spec"]["replicas"],
                outdated=body["status"]["replicas"] - body["status"]["updatedReplicas"],
                observed=body["status"]["observedGeneration"] == body["metadata"]["generation"],
            )
            for body in self.deployment_bodies()
            if body["metadata"]["labels"][RUN_UID] == uid
        }

    def deployment_bodies(self) -> list[dict[str, Any]]:
        """All Deployments, with their status."""
        bodies = self.deployments.bodies()
        for body in bodies:
            name, status = body["metadata"]["name"], body["status"]
            status["readyReplicas"] = self.ready_servers.get(name, status["readyReplicas"])
            if problem := self.creation_problems.get(name):
                reason, _, message = problem.partition(": ")
                failure = {"type": "ReplicaFailure", "status": "True"}
                status["conditions"] = [failure | {"reason": reason, "message": message}]
        return bodies

    async def add_finalizer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._patch_finalizers(body, lambda old: [*old, FINALIZER])

    async def remove_finalizer(self, body: Mapping[str, Any]) -> None:
        self._patch_finalizers(body, lambda old: [one for one in old if one != FINALIZER])

    async def patch_status(
        self, resource: Resource, status: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        self._check()
        body = self.resources.get((resource.namespace, resource.name))
        if body is None:
            return None
        if refused := "; ".join(violations(dict(status), STATUS, "status")):
            raise KubernetesError(f"Kubernetes: PATCH: 422: {refused}", status=422, retryable=False)
        merged = {**body.get("status", {}), **status}
        body["status"] = {name: value for name, value in merged.items() if value is not None}
        self._touch(body)
        self.status_patches += 1
        return deepcopy(body)

    async def create_event(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self._check()
        self.events.append((kind, reason, message))

    async def create(self, manifest: Manifest) -> bool:
        self._check()
        if self.quota_used_up:
            message = f"Kubernetes: POST: 403: {QUOTA_USED_UP}: objects"
            raise KubernetesError(message, status=403, retryable=False)
        if manifest["kind"] == "Sandbox" and not self.agent_sandbox.installed:
            raise KubernetesError("Kubernetes: the server has no such resource", status=404)
        created = self.children.setdefault(_child_key(manifest), manifest) is manifest
        if created:
            self.deployments.forget(manifest)
        return created

    async def exists(self, manifest: Manifest) -> bool:
        self._check()
        return _child_key(manifest) in self.children

    async def apply(
        self, manifest: Manifest, *, exists: bool = False, keep_replicas: bool = False
    ) -> None:
        self._check()
        before = self.children.get(_child_key(manifest))
        if before is None:
            self.deployments.forget(manifest)
        elif manifest["kind"] == "Deployment":
            name = manifest["metadata"]["name"]
            bodies = {one["metadata"]["name"]: one for one in self.deployment_bodies()}
            ready = bodies[name]["status"]["readyReplicas"]
            self.kueue.check_deployment(before, manifest, ready=ready)
        if before is not None and keep_replicas:
            spec = manifest["spec"] | {"replicas": before["spec"]["replicas"]}
            manifest = manifest | {"spec": spec}
        self.children[_child_key(manifest)] = manifest

    async def ensure(self, manifest: Manifest, *, keep_replicas: bool = False) -> None:
        metadata = manifest["metadata"]
        if _child_key(manifest) not in self.children:
            await self.create(manifest)
        elif not keep_replicas:
            replicas = manifest["spec"]["replicas"]
            await self.fleet.scale(metadata["namespace"], metadata["name"], replicas)

    async def delete_deployment(self, namespace: str, name: str) -> None:
        self._check()
        if self.children.pop(("Deployment", namespace, name), None) is not None:
            self.deleted_deployments.append(name)

    async def delete_run(self, resource: Resource) -> None:
        self._check()
        if (resource.namespace, resource.name) in self.resources:
            self.delete((resource.namespace, resource.name), "2026-01-01T00:00:00Z")

    async def delete_workflows(self, namespace: str, run_id: str) -> None:
        self._check()
        self._kfp.working.discard(run_id)

    async def list_workflows(self, namespace: str, run_id: str) -> Sequence[Workflow]:
        self._check()
        refusal = self.refusals.get(run_id, "")
        workflow = Workflow(phase="Running", refusal=refusal)
        return [workflow] if run_id in self._kfp.working else []

    async def list_pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        """One pod for each working or deleted KFP run, with its problem from `pod_problems`, and by
        the name of a run `server_pods`. A KFP run belongs to the AgentRLRun whose name its own
        begins with."""
        self._check()
        if label == "ray.io/cluster":
            return self.kuberay.pods(values)
        named = (one for one in self._kfp.submitted if one.name.partition(":")[0] in values)
        own = {one.run_id for one in named}
        serving = self.server_pods if label == RUN_LABEL else []
        problems = {
            run_id: self.pod_problems.get(run_id, "")
            for run_id in sorted((self._kfp.working | self._kfp.ending) & (own | set(values)))
            if run_id not in self.refusals
        }
        return serving + [
            Pod(
                part="train",
                run_id=run_id,
                ended=False,
                problem=problem,
                reason=problem.partition(":")[0],
            )
            for run_id, problem in problems.items()
        ]

    async def list_runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        self._check()
        for key in list(self.resources):
            yield self.body(key)

    async def list_deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        self._check()
        for body in self.deployment_bodies():
            yield body

    async def ping(self, namespace: str | None) -> None:
        self._check()

    def _patch_finalizers(
        self, body: Mapping[str, Any], change: Callable[[list[str]], list[str]]
    ) -> Mapping[str, Any]:
        self._check()
        metadata = body["metadata"]
        key = (metadata["namespace"], metadata["name"])
        found = self.resources.get(key)
        if found is None:
            return {}
        if found["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise KubernetesError("Kubernetes: the object has been modified", status=409)
        found["metadata"]["finalizers"] = change(found["metadata"].get("finalizers", []))
        self._touch(found)
        self._sweep(key)
        return deepcopy(found)

    def _sweep(self, key: Key) -> None:
        """Remove a deleted run that has no finalizer left."""
        metadata = self.resources[key]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.resources[key]

    def _check(self) -> None:
        if self.down:
            raise KubernetesError("Kubernetes: connection refused")

    def _touch(self, body: dict[str, Any]) -> None:
        body["metadata"]["resourceVersion"] = self._next()

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


class MemoryKfp:
    """`Pipelines` in memory. A run that is posted twice works twice, as in the real KFP."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.submitted: list[Submission] = []
        """All posted runs in order. An id that occurs twice was posted twice."""
        self.working: set[str] = set()
        """Ids of runs whose Workflow and pods are working."""
        self.ending: set[str] = set()
        """Ids of deleted runs whose Workflow is gone and whose pods have not ended."""
        self.deleted: list[str] = []
        """Ids of deleted runs, in order."""
        self.deleted_experiments: list[str] = []
        self.down = False
        """Every request fails."""
        self.loses_responses = False
        """A run is started, but the response to the request gets lost."""

    async def get_run(self, run_id: str) -> KfpRun | None:
        self._check()
        state = self.states.get(run_id)
        return KfpRun(state=state) if state is not None else None

    async def start_run(self, submission: Submission) -> None:
        self._check()
        if submission.run_id in self.states or submission.run_id in self.working:
            return
        self.submitted.append(submission)
        self.states[submission.run_id] = "RUNNING"
        self.working.add(submission.run_id)
        if self.loses_responses:
            raise KfpError("KFP: POST runs: the connection was closed")

    async def terminate_run(self, run_id: str) -> None:
        self._check()
        if self.states.get(run_id) == "RUNNING":
            self.states[run_id] = "CANCELING"

    async def list_runs(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        self._check()
        ids = {one.run_id for one in self.submitted if one.experiment == experiment}
        return {run_id: KfpRun(state=self.states[run_id]) for run_id in ids & self.states.keys()}

    async def delete_experiment(self, experiment: str, namespace: str) -> None:
        self._check()
        self.deleted_experiments.append(experiment)

    def end(self, run_id: str, state: str) -> None:
        """End the Workflow of a run; the run is then in this state."""
        self.states[run_id] = state
        self.working.discard(run_id)

    def delete(self, run_id: str) -> None:
        """Delete a run, as a person does in the UI. Its pods end later: see `ending`."""
        del self.states[run_id]
        self.deleted.append(run_id)
        if run_id in self.working:
            self.working.discard(run_id)
            self.ending.add(run_id)

    def _check(self) -> None:
        if self.down:
            raise KfpError("KFP: connection refused")


def _child_key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata["namespace"], metadata["name"]
