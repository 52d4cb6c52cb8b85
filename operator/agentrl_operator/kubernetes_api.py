"""The one place that writes to Kubernetes. Reading what changes is Kopf's part.

Plain REST on aiohttp: Kopf has it loaded, nothing blocks, and the official client would take as
much memory as the rest of the operator together.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

import aiohttp
import kopf

from agentrl_components.spec import GROUP, KIND, VERSION
from agentrl_components.spec.crd import PLURAL
from agentrl_operator import pods
from agentrl_operator.children import MANAGED_BY, MANAGER, Manifest
from agentrl_operator.errors import KubernetesError
from agentrl_operator.kueue_api import KueueApi
from agentrl_operator.pods import Pod
from agentrl_operator.resource import FINALIZER, Resource
from agentrl_pipelines.binding import RUN_ID_LABEL

WORKFLOWS = "apis/argoproj.io/v1alpha1"
_PAGE = 100
_NO_SUCCESS = "status.phase%21%3DSucceeded"


@dataclass(slots=True)
class _Connection:
    server: str
    session: aiohttp.ClientSession


def login() -> kopf.ConnectionInfo:
    """Where the API server is and who we are: the pod's service account, else KUBECONFIG."""
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )
    if info is None:
        raise KubernetesError(
            "Kubernetes: no service account and no kubeconfig; set KUBECONFIG", retryable=False
        )
    return info


class KubernetesApi:
    """`Cluster` on a real one. To be closed."""

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo] = login,
        *,
        requests_at_once: int = 32,
        timeout_s: float = 30.0,
    ) -> None:
        self._login = login
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        self._limit = requests_at_once
        self._connection: _Connection | None = None
        self.kueue = KueueApi(self._ask)
        self.requests = 0
        """Sent so far."""

    async def close(self) -> None:
        """Let the connections go."""
        if self._connection is not None:
            connector = self._connection.session.connector
            if connector is not None:
                await connector.close(abort_ssl=True)  # no farewell: nothing would read the answer
            await self._connection.session.close()
            self._connection = None

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
        path = f"{_collection(manifest)}/{manifest['metadata']['name']}"
        await self._ask(
            "PATCH",
            f"{path}?fieldManager={MANAGER}&force=true",
            manifest,
            kind="application/apply-patch+yaml",
            read=False,
        )

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

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = "application/merge-patch+json",
        absent_is_fine: bool = False,
        read: bool = True,
    ) -> Mapping[str, Any]:
        """The answer; empty where the object is absent and that is fine, and where nobody is to
        `read` it. A login that has run out is renewed once."""
        for again in (True, False):
            status, answer = await self._sent(method, path, body, kind)
            if status == 401 and again:
                await self.close()
                continue
            if status == 404 and absent_is_fine:
                return {}
            if status >= 400:
                raise _refused(method, path, status, _parsed(answer))
            return _parsed(answer) if read else {}
        raise AssertionError("unreachable")

    async def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, kind: str
    ) -> tuple[int, bytes]:
        connection = self._connected()
        headers = {"Content-Type": kind if method == "PATCH" else "application/json"}
        data = None if body is None else json.dumps(body)
        self.requests += 1
        try:
            async with connection.session.request(
                method, f"{connection.server}/{path}", data=data, headers=headers
            ) as response:
                return response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise KubernetesError(f"Kubernetes: {method} {path}: {_why(error)}") from error

    def _connected(self) -> _Connection:
        if self._connection is None:
            info = self._login()
            connector = aiohttp.TCPConnector(limit=self._limit, ssl=info.as_ssl_context())
            session = aiohttp.ClientSession(
                connector=connector, headers=info.as_http_headers(), timeout=self._timeout
            )
            self._connection = _Connection(info.server.rstrip("/"), session)
        return self._connection


def _refused(method: str, path: str, status: int, answer: Mapping[str, Any]) -> KubernetesError:
    reason = answer.get("message") or answer.get("reason") or "no reason given"
    return KubernetesError(
        f"Kubernetes: {method} {path.partition('?')[0]}: {status}: {reason}",
        status=status,
        retryable=status in (401, 409, 429) or status >= 500,
    )


def _parsed(data: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"message": data[:300].decode(errors="replace")}


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _phases(found: Mapping[str, Any]) -> list[str]:
    return [(item.get("status") or {}).get("phase") or "" for item in found.get("items", ())]


def _labelled(api: str, namespace: str, plural: str, run_id: str) -> str:
    return f"{api}/namespaces/{namespace}/{plural}?labelSelector={RUN_ID_LABEL}%3D{run_id}"


def _run_path(namespace: str, name: str) -> str:
    return f"apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{name}"


def _collection(manifest: Manifest) -> str:
    version = manifest["apiVersion"]
    api = f"apis/{version}" if "/" in version else f"api/{version}"
    return f"{api}/namespaces/{manifest['metadata']['namespace']}/{manifest['kind'].lower()}s"
