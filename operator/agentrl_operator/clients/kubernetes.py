"""The one place that writes to Kubernetes. Reading what changes is Kopf's part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

import kopf

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_operator.api.resource import FINALIZER, Resource
from agentrl_operator.clients import pods
from agentrl_operator.clients.http import Connection, login
from agentrl_operator.clients.kueue import KueueApi
from agentrl_operator.clients.pods import Pod
from agentrl_operator.clients.write_gate import Term
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.lease_client import LEASES, LeaseApi
from agentrl_operator.manifests.environment_server import MANAGED_BY, MANAGER, Manifest
from agentrl_pipelines.labels import KFP_RUN_LABEL

WORKFLOWS = "apis/argoproj.io/v1alpha1"
_PAGE = 100
_NO_SUCCESS = "status.phase%21%3DSucceeded"


class KubernetesApi:
    """`Cluster` on a real one. To be closed."""

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo] = login,
        *,
        term: Term | None = None,
        requests_at_once: int = 32,
        timeout_s: float = 30.0,
    ) -> None:
        """Changes nothing but Leases outside of `term`. None: it has no end."""
        self._connection = Connection(
            login,
            term or Term(),
            free=LEASES,
            requests_at_once=requests_at_once,
            timeout_s=timeout_s,
        )
        self._ask = self._connection.ask
        self.close = self._connection.close
        self.kueue = KueueApi(self._ask)
        self.leases = LeaseApi(self._ask)

    @property
    def requests(self) -> int:
        """Sent so far."""
        return self._connection.requests

    async def hold(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        metadata = body["metadata"]
        finalizers = [*metadata.get("finalizers", ()), FINALIZER]
        return await self._finalizers(metadata, finalizers)

    async def release(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        finalizers = [one for one in metadata.get("finalizers", ()) if one != FINALIZER]
        await self._finalizers(metadata, finalizers)

    async def _finalizers(
        self, metadata: Mapping[str, Any], finalizers: list[str]
    ) -> Mapping[str, Any]:
        # The version makes the patch fail, to be tried again, where someone else changed the list.
        change = {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}
        path = _run_path(metadata["namespace"], metadata["name"])
        return await self._ask("PATCH", path, {"metadata": change}, absent_is_fine=True)

    async def tell(self, resource: Resource, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        path = f"{_run_path(resource.namespace, resource.name)}/status"
        # The uid guards against a namesake that was made meanwhile.
        change = {"metadata": {"uid": resource.uid}, "status": status}
        return await self._ask("PATCH", path, change, absent_is_fine=True) or None

    async def record(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        now = datetime.now(UTC)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        event = {
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
            "eventTime": stamp,
            "firstTimestamp": stamp[:19] + "Z",
            "lastTimestamp": stamp[:19] + "Z",
            "count": 1,
            "reportingComponent": MANAGER,
            "reportingInstance": MANAGER,
            "source": {"component": MANAGER},
        }
        await self._ask("POST", f"api/v1/namespaces/{resource.namespace}/events", event, read=False)

    async def create(self, manifest: Manifest) -> bool:
        try:
            await self._ask("POST", _collection(manifest), manifest, read=False)
        except KubernetesError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def apply(self, manifest: Manifest) -> None:
        # Server-side apply would do for both, and is much dearer (an API server reads its YAML
        # twice), while most of these are made once and never changed.
        if await self.create(manifest):
            return
        path = f"{_collection(manifest)}/{manifest['metadata']['name']}"
        kind = "application/strategic-merge-patch+json"
        await self._ask("PATCH", path, _replacing(manifest), kind=kind, read=False)

    async def remove_deployment(self, namespace: str, name: str) -> None:
        path = f"apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        await self._delete(f"{path}?propagationPolicy=Background")

    async def remove_resource(self, resource: Resource) -> None:
        same = {"preconditions": {"uid": resource.uid}}
        await self._delete(_run_path(resource.namespace, resource.name), same)

    async def remove_workflow(self, namespace: str, run_id: str) -> None:
        path = _labelled(WORKFLOWS, namespace, "workflows", run_id)
        found = await self._ask("GET", path, absent_is_fine=True)
        for item in found.get("items", ()):
            name = item["metadata"]["name"]
            path = f"{WORKFLOWS}/namespaces/{namespace}/workflows/{name}"
            await self._delete(f"{path}?propagationPolicy=Background")

    async def workflows(self, namespace: str, run_id: str) -> Sequence[str]:
        path = _labelled(WORKFLOWS, namespace, "workflows", run_id)
        return _phases(await self._ask("GET", path, absent_is_fine=True))

    async def pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        which = f"labelSelector={label}%20in%20({'%2C'.join(values)})&fieldSelector={_NO_SUCCESS}"
        found = await self._ask("GET", f"api/v1/namespaces/{namespace}/pods?{which}")
        return [pods.read(item) for item in found.get("items", ())]

    async def runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        where = f"namespaces/{namespace}/{PLURAL}" if namespace else PLURAL
        async for item in self._listed(f"apis/{GROUP}/{VERSION}/{where}?"):
            yield {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **item}

    async def deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        where = f"namespaces/{namespace}/deployments" if namespace else "deployments"
        mine = f"labelSelector={quote(f'{MANAGED_BY}={MANAGER}', safe='')}&"
        async for item in self._listed(f"apis/apps/v1/{where}?{mine}"):
            yield item

    async def answers(self, namespace: str | None) -> None:
        where = f"namespaces/{namespace}/{PLURAL}" if namespace else PLURAL
        await self._ask("GET", f"apis/{GROUP}/{VERSION}/{where}?limit=1")

    async def _listed(self, path: str) -> AsyncIterator[Mapping[str, Any]]:
        """Objects of a list, a page at a time: whole, it could be larger than all else here."""
        more = ""
        while True:
            page = await self._ask("GET", f"{path}limit={_PAGE}&continue={more}")
            for item in page.get("items", ()):
                yield item
            more = quote(page["metadata"].get("continue") or "")
            if not more:
                return

    async def _delete(self, path: str, options: Mapping[str, Any] | None = None) -> None:
        await self._ask("DELETE", path, options, absent_is_fine=True, read=False)


def _phases(found: Mapping[str, Any]) -> list[str]:
    return [(item.get("status") or {}).get("phase") or "" for item in found.get("items", ())]


def _labelled(api: str, namespace: str, plural: str, run_id: str) -> str:
    return f"{api}/namespaces/{namespace}/{plural}?labelSelector={KFP_RUN_LABEL}%3D{run_id}"


def _replacing(manifest: Manifest) -> Manifest:
    """The patch that makes an object like this; what its labels and its pods had before goes."""

    def whole(part: Mapping[str, Any]) -> Manifest:
        return {"$patch": "replace", **part}

    metadata, spec = manifest["metadata"], manifest["spec"]
    return manifest | {
        "metadata": metadata | {"labels": whole(metadata["labels"])},
        "spec": spec | {"template": whole(spec["template"])},
    }


def _run_path(namespace: str, name: str) -> str:
    return f"apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{name}"


def _collection(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    api = f"apis/{version}" if "/" in version else f"api/{version}"
    return f"{api}/namespaces/{manifest['metadata']['namespace']}/{manifest['kind'].lower()}s"
