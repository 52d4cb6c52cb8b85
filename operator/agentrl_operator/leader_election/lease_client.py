"""Leases, as Kubernetes' API has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agentrl_operator.clients.kueue import Ask
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import Name, Record
from agentrl_operator.manifests.environment_server import MANAGED_BY, MANAGER

_VERSION = "coordination.k8s.io/v1"
LEASES = f"apis/{_VERSION}/"


class LeaseApi:
    """`Leases` on a real one."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def read(self, name: Name) -> Record | None:
        body = await self._ask("GET", _path(name), absent_is_fine=True)
        return _read(body) if body else None

    async def write(
        self, name: Name, holder: str, duration_s: int, over: Record | None
    ) -> Record | None:
        body = _body(name, holder, duration_s, over)
        try:
            if over is None:
                return _read(await self._ask("POST", _collection(name), body))
            answer = await self._ask("PUT", _path(name), body, absent_is_fine=True)
        except KubernetesError as error:
            if error.status != 409:
                raise
            return None
        return _read(answer) if answer else None


def _body(name: Name, holder: str, duration_s: int, over: Record | None) -> Mapping[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    before = over or Record(version="", holder="", duration_s=duration_s)
    changes_hands = holder not in ("", before.holder)
    metadata = {
        "name": name.name,
        "namespace": name.namespace,
        "labels": {MANAGED_BY: MANAGER},
    }
    if over is not None:
        metadata["resourceVersion"] = over.version  # refused where someone else wrote meanwhile
    return {
        "apiVersion": _VERSION,
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": now if changes_hands else before.acquired or now,
            "renewTime": now,
            "leaseTransitions": before.transitions + changes_hands,
        },
    }


def _read(body: Mapping[str, Any]) -> Record:
    spec = body.get("spec") or {}
    return Record(
        version=body["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        duration_s=spec.get("leaseDurationSeconds") or 0,
        transitions=spec.get("leaseTransitions") or 0,
        acquired=spec.get("acquireTime") or "",
    )


def _collection(name: Name) -> str:
    return f"{LEASES}namespaces/{name.namespace}/leases"


def _path(name: Name) -> str:
    return f"{_collection(name)}/{name.name}"
