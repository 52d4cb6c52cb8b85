"""Kopf's part: it watches, and says what it saw. It keeps no state of its own in the resources: the
framework's handlers for creation, change and deletion work by differences and by annotations,
while this operator works by what is there."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import kopf

from agentrl_components.spec import GROUP, VERSION
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_operator.clients.kubernetes_connection import login
from agentrl_operator.controller.controller import Controller
from agentrl_operator.manifests.labels import FINGERPRINT, MANAGED_BY, MANAGER, RUN_UID
from agentrl_operator.manifests.workload import GROUP as KUEUE
from agentrl_operator.manifests.workload import PLURAL as KUEUE_PLURAL
from agentrl_operator.manifests.workload import VERSION as KUEUE_VERSION
from agentrl_operator.planning.observation import Servers

DEPLOYMENTS = ("apps", "v1", "deployments")
WORKLOADS = (KUEUE, KUEUE_VERSION, KUEUE_PLURAL)


def watched(
    controller: Controller,
    *,
    workloads: bool,
    stops: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    """Everything that Kopf has to call; with `workloads`, for Kueue's too. `stops` is what to do
    when the operator is told to stop: Kopf then waits up to five seconds for every task that began
    after its own."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    # No index of Kopf's: with one, every object of every kind would lie in memory at once, until
    # the last one is in the index. Servers are listed before (`app`), so that runs are first looked
    # at with their servers known.
    @kopf.on.event(*DEPLOYMENTS, labels={MANAGED_BY: MANAGER}, registry=registry)
    async def servers_changed(event: kopf.RawEvent, **_: Any) -> None:
        servers_seen(controller, event["object"], gone=event["type"] == "DELETED")

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def run_seen(event: kopf.RawEvent, **_: Any) -> None:
        body = event["object"]
        if event["type"] == "DELETED":
            controller.gone(body["metadata"]["namespace"], body["metadata"]["name"])
        else:
            controller.seen(body)

    @kopf.on.cleanup(registry=registry)
    async def stopping(**_: Any) -> None:
        await stops()

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
    chosen.watching.chunk_size = 50
    chosen.watching.label_selectors[DEPLOYMENTS] = f"{MANAGED_BY}={MANAGER}"
    chosen.watching.label_selectors[WORKLOADS] = f"{MANAGED_BY}={MANAGER}"
    # So long an object stays in memory after its last event; with a list of them, all at once.
    chosen.queueing.idle_timeout = 0.1
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


def servers_seen(
    controller: Controller, body: Mapping[str, Any], *, gone: bool = False
) -> tuple[str, str]:
    """A Deployment is like this, or is no more; the uid of its run, and its name."""
    metadata, status = body["metadata"], body.get("status") or {}
    uid, name = metadata.get("labels", {}).get(RUN_UID, ""), metadata["name"]
    seen = Servers(
        manifest=metadata.get("annotations", {}).get(FINGERPRINT, ""),
        ready=status.get("readyReplicas", 0),
        wanted=body["spec"].get("replicas", 1),
    )
    gone = gone or "deletionTimestamp" in metadata
    controller.servers_seen(uid, name, None if gone else seen)
    return uid, name
