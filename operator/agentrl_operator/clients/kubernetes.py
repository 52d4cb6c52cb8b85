"""All requests of the operator to Kubernetes, except for watches, which are Kopf's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

import kopf

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_operator.api.resource import FINALIZER, Resource
from agentrl_operator.clients import pods, workflows
from agentrl_operator.clients.addons.agent_sandbox import AgentSandboxApi
from agentrl_operator.clients.addons.kuberay import KubeRayApi
from agentrl_operator.clients.addons.kueue import KueueApi
from agentrl_operator.clients.fleet import FleetApi
from agentrl_operator.clients.kubernetes_connection import KubernetesConnection, login
from agentrl_operator.clients.pods import Pod
from agentrl_operator.clients.workflows import Workflow
from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.labels import MANAGED_BY, MANAGER
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.labels import KFP_RUN_LABEL

_RUNS = f"apis/{GROUP}/{VERSION}"
_WORKFLOWS = "apis/argoproj.io/v1alpha1"
_PAGE_SIZE = 100
_NOT_SUCCEEDED = "status.phase%21%3DSucceeded"


class KubernetesApi:
    """`Cluster` over HTTP. Close it after use."""

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo] = login,
        *,
        gate: WriteGate | None = None,
        connections: int = 32,
        timeout_s: float = 30.0,
    ) -> None:
        """Without `gate` writes are always sent."""
        self._connection = KubernetesConnection(
            login, gate, connections=connections, timeout_s=timeout_s
        )
        self.request = self._connection.request
        self.kueue = KueueApi(self.request)
        self.kuberay = KubeRayApi(self.request)
        self.agent_sandbox = AgentSandboxApi(self.request)
        self.fleet = FleetApi(self.request)

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        await self._connection.close()
        await self.fleet.close()

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._connection.requests

    async def add_finalizer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata = body["metadata"]
        finalizers = [*metadata.get("finalizers", ()), FINALIZER]
        return await self._patch_finalizers(metadata, finalizers)

    async def remove_finalizer(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        finalizers = [one for one in metadata.get("finalizers", ()) if one != FINALIZER]
        await self._patch_finalizers(metadata, finalizers)

    async def _patch_finalizers(
        self, metadata: Mapping[str, Any], finalizers: list[str]
    ) -> Mapping[str, Any]:
        # With the resourceVersion the patch fails if somebody else changed the list meanwhile.
        change = {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}
        path = _run_path(metadata["namespace"], metadata["name"])
        return await self.request("PATCH", path, {"metadata": change}, ignore_not_found=True)

    async def patch_status(
        self, resource: Resource, status: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        path = f"{_run_path(resource.namespace, resource.name)}/status"
        # With the uid the patch fails for a run of the same name that was created meanwhile.
        change = {"metadata": {"uid": resource.uid}, "status": status}
        return await self.request("PATCH", path, change, ignore_not_found=True) or None

    async def create_event(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        path = f"api/v1/namespaces/{resource.namespace}/events"
        event = _event(resource, kind, reason, message, datetime.now(UTC))
        await self.request("POST", path, event, parse=False)

    async def create(self, manifest: Manifest) -> bool:
        try:
            await self.request("POST", _collection_path(manifest), manifest, parse=False)
        except KubernetesError as error:
            # A ResourceQuota that is charged for several objects at the same time refuses some with
            # the same status, as a Conflict.
            if (error.status, error.reason) != (409, "AlreadyExists"):
                raise
            return False
        return True

    async def exists(self, manifest: Manifest) -> bool:
        return bool(await self.request("GET", _object_path(manifest), ignore_not_found=True))

    async def apply(
        self, manifest: Manifest, *, exists: bool = False, keep_replicas: bool = False
    ) -> None:
        # Server-side apply would do both, but costs the API server far more, and most Deployments
        # are created once and never changed.
        if not exists and await self.create(manifest):
            return
        change = _replacement(manifest)
        if keep_replicas:
            del change["spec"]["replicas"]
        await self._patch_or_create(manifest, change)

    async def ensure(self, manifest: Manifest, *, keep_replicas: bool = False) -> None:
        change = {} if keep_replicas else {"spec": {"replicas": manifest["spec"]["replicas"]}}
        await self._patch_or_create(manifest, change)

    async def _patch_or_create(self, manifest: Manifest, change: Mapping[str, Any]) -> None:
        patch, path = "application/strategic-merge-patch+json", _object_path(manifest)
        if not await self.request("PATCH", path, change, patch=patch, ignore_not_found=True):
            await self.create(manifest)

    async def delete_deployment(self, namespace: str, name: str) -> None:
        path = f"apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        await self._delete(f"{path}?propagationPolicy=Background")

    async def delete_run(self, resource: Resource) -> None:
        same_uid = {"preconditions": {"uid": resource.uid}}
        await self._delete(_run_path(resource.namespace, resource.name), same_uid)

    async def delete_workflows(self, namespace: str, run_id: str) -> None:
        for workflow in await self._workflows(namespace, run_id):
            name = workflow["metadata"]["name"]
            path = f"{_WORKFLOWS}/namespaces/{namespace}/workflows/{name}"
            await self._delete(f"{path}?propagationPolicy=Background")

    async def list_workflows(self, namespace: str, run_id: str) -> Sequence[Workflow]:
        return [workflows.read(body) for body in await self._workflows(namespace, run_id)]

    async def _workflows(self, namespace: str, run_id: str) -> Sequence[Mapping[str, Any]]:
        label = f"{KFP_RUN_LABEL}%3D{run_id}"
        path = f"{_WORKFLOWS}/namespaces/{namespace}/workflows?labelSelector={label}"
        found: Sequence[Mapping[str, Any]] = (
            await self.request("GET", path, ignore_not_found=True)
        ).get("items", ())
        return found

    async def list_pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        labels = f"{label}%20in%20({'%2C'.join(values)})"
        query = f"labelSelector={labels}&fieldSelector={_NOT_SUCCEEDED}"
        found = await self.request("GET", f"api/v1/namespaces/{namespace}/pods?{query}")
        now = datetime.now(UTC)
        return [pods.read(item, now) for item in found.get("items", ())]

    async def list_runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        async for item in self._list(f"{_RUNS}/{_runs_path(namespace)}?"):
            yield {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **item}

    async def list_deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        path = f"namespaces/{namespace}/deployments" if namespace else "deployments"
        label = quote(f"{MANAGED_BY}={MANAGER}", safe="")
        async for item in self._list(f"apis/apps/v1/{path}?labelSelector={label}&"):
            yield item

    async def ping(self, namespace: str | None) -> None:
        await self.request("GET", f"{_RUNS}/{_runs_path(namespace)}?limit=1")

    async def _list(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        """The objects of a list. Read page by page, because a whole list could need more memory
        than the rest of the operator."""
        position = ""
        while True:
            page = await self.request("GET", f"{path}limit={_PAGE_SIZE}&continue={position}")
            for item in page.get("items", ()):
                yield item
            position = quote(page["metadata"].get("continue") or "")
            if not position:
                return

    async def _delete(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        await self.request("DELETE", path, options, ignore_not_found=True, parse=False)


def _event(
    resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str, now: datetime
) -> Manifest:
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "metadata": {"generateName": f"{resource.name}.", "namespace": resource.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": resource.name,
            "namespace": resource.namespace,
            "uid": resource.uid,
        },
        "type": kind,
        "reason": reason,
        "action": reason,
        "message": message[:1024],
        "eventTime": time,
        "firstTimestamp": time[:19] + "Z",
        "lastTimestamp": time[:19] + "Z",
        "count": 1,
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
        "source": {"component": MANAGER},
    }


def _replacement(manifest: Manifest) -> Manifest:
    """The strategic merge patch that turns a Deployment into `manifest`: its labels and its pod
    template are replaced as a whole, so that fields which are gone are removed."""

    def replace(part: Mapping[str, Any]) -> Manifest:
        return {"$patch": "replace", **part}

    metadata, spec = manifest["metadata"], manifest["spec"]
    return manifest | {
        "metadata": metadata | {"labels": replace(metadata["labels"])},
        "spec": spec | {"template": replace(spec["template"])},
    }


def _runs_path(namespace: str | None) -> str:
    return f"namespaces/{namespace}/{PLURAL}" if namespace else PLURAL


def _run_path(namespace: str, name: str) -> str:
    return f"{_RUNS}/{_runs_path(namespace)}/{name}"


def _object_path(manifest: Manifest) -> str:
    return f"{_collection_path(manifest)}/{manifest['metadata']['name']}"


def _collection_path(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    api = f"apis/{version}" if "/" in version else f"api/{version}"
    kind = manifest["kind"].lower()
    plural = f"{kind}es" if kind.endswith("x") else f"{kind}s"
    return f"{api}/namespaces/{manifest['metadata']['namespace']}/{plural}"
