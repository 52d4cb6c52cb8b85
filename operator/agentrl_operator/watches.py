"""Kopf's part: it watches, and says what it saw. It keeps no state of its own in the resources: the
framework's handlers for creation, change and deletion work by differences and by annotations,
while this operator works by what is there."""

from __future__ import annotations

import logging
from typing import Any

import kopf

from agentrl_components.spec import GROUP, VERSION
from agentrl_components.spec.crd import PLURAL
from agentrl_operator.children import FINGERPRINT, MANAGED_BY, MANAGER, RUN_UID
from agentrl_operator.controller import Controller
from agentrl_operator.kubernetes_api import login
from agentrl_operator.observed import Servers
from agentrl_operator.workload import GROUP as KUEUE
from agentrl_operator.workload import PLURAL as KUEUE_PLURAL
from agentrl_operator.workload import VERSION as KUEUE_VERSION

DEPLOYMENTS = ("apps", "v1", "deployments")
WORKLOADS = (KUEUE, KUEUE_VERSION, KUEUE_PLURAL)


def watched(controller: Controller, *, workloads: bool) -> kopf.OperatorRegistry:
    """Everything that Kopf has to call; with `workloads`, for Kueue's too."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    # An index is filled before any handler runs: runs are first looked at with their servers known.
    @kopf.index(*DEPLOYMENTS, labels={MANAGED_BY: MANAGER}, registry=registry)
    async def servers(body: kopf.Body, **_: Any) -> None:
        _servers_seen(controller, body, gone=False)

    @kopf.on.event(*DEPLOYMENTS, labels={MANAGED_BY: MANAGER}, registry=registry)
    async def servers_gone(event: kopf.RawEvent, body: kopf.Body, **_: Any) -> None:
        if event["type"] == "DELETED":
            _servers_seen(controller, body, gone=True)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def run_seen(event: kopf.RawEvent, **_: Any) -> None:
        body = event["object"]
        if event["type"] == "DELETED":
            controller.gone(body["metadata"]["namespace"], body["metadata"]["name"])
        else:
            controller.seen(body)

    if workloads:

        @kopf.on.event(*WORKLOADS, labels={MANAGED_BY: MANAGER}, registry=registry)
        async def workload_seen(body: kopf.Body, **_: Any) -> None:
            controller.workload_seen(body.metadata.labels.get(RUN_UID, ""))

    return registry


def settings(*, namespaced: bool) -> kopf.OperatorSettings:
    """How Kopf watches."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False  # the controller makes its own Events, of its own reasons
    chosen.posting.level = logging.WARNING
    chosen.persistence.finalizer = f"{GROUP}/kopf"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    chosen.persistence.diffbase_storage = _NoDifferences()
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 5
    chosen.watching.server_timeout = 600
    chosen.watching.connect_timeout = 5
    chosen.watching.chunk_size = 200
    chosen.watching.label_selectors[DEPLOYMENTS] = f"{MANAGED_BY}={MANAGER}"
    chosen.watching.label_selectors[WORKLOADS] = f"{MANAGED_BY}={MANAGER}"
    chosen.queueing.idle_timeout = 1.0
    chosen.execution.max_workers = 2
    chosen.scanning.disabled = namespaced  # a Role of one namespace may not look at the cluster
    return chosen


class _NoDifferences(kopf.DiffBaseStorage):
    """Kopf would copy every object of every event twice, to find changes that nobody asks for."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


def _servers_seen(controller: Controller, body: kopf.Body, *, gone: bool) -> None:
    uid, name = body.metadata.labels.get(RUN_UID), body.metadata.name
    if uid is None or name is None:
        return
    status = body.get("status") or {}
    seen = Servers(
        manifest=body.metadata.annotations.get(FINGERPRINT, ""),
        ready=status.get("readyReplicas", 0),
        wanted=body["spec"].get("replicas", 1),
    )
    being_deleted = body.metadata.deletion_timestamp is not None
    controller.servers_seen(uid, name, None if gone or being_deleted else seen)
