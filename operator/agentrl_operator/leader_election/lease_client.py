"""Leases in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agentrl_operator.clients.kubernetes_connection import Request
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import LeaseName, LeaseRecord
from agentrl_operator.manifests.labels import MANAGED_BY, MANAGER

_VERSION = "coordination.k8s.io/v1"


class LeaseClient:
    """`Leases` of a real cluster. Its updates do not pass the write gate, which depends on them."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def get(self, name: LeaseName) -> LeaseRecord | None:
        body = await self._request("GET", _path(name), ignore_not_found=True)
        return _record(body) if body else None

    async def update(
        self, name: LeaseName, holder: str, duration_s: int, observed: LeaseRecord | None
    ) -> LeaseRecord | None:
        body = _body(name, holder, duration_s, observed)
        try:
            if observed is None:
                return _record(await self._request("POST", _collection(name), body, write=False))
            found = await self._request(
                "PUT", _path(name), body, ignore_not_found=True, write=False
            )
        except KubernetesError as error:
            if error.status != 409:
                raise
            return None
        return _record(found) if found else None


def _body(
    name: LeaseName, holder: str, duration_s: int, observed: LeaseRecord | None
) -> Mapping[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    before = observed or LeaseRecord(version="", holder="", duration_s=duration_s)
    transition = holder not in ("", before.holder)
    metadata = {
        "name": name.name,
        "namespace": name.namespace,
        "labels": {MANAGED_BY: MANAGER},
    }
    if observed is not None:
        metadata["resourceVersion"] = observed.version  # the update fails for another version
    return {
        "apiVersion": _VERSION,
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": now if transition else before.acquired or now,
            "renewTime": now,
            "leaseTransitions": before.transitions + transition,
        },
    }


def _record(body: Mapping[str, Any]) -> LeaseRecord:
    spec = body.get("spec") or {}
    return LeaseRecord(
        version=body["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        duration_s=spec.get("leaseDurationSeconds") or 0,
        transitions=spec.get("leaseTransitions") or 0,
        acquired=spec.get("acquireTime") or "",
    )


def _collection(name: LeaseName) -> str:
    return f"apis/{_VERSION}/namespaces/{name.namespace}/leases"


def _path(name: LeaseName) -> str:
    return f"{_collection(name)}/{name.name}"
