"""The watches on Kubernetes: Kopf's handlers, and lists of all objects to repair missed events.

Kopf keeps no state in the resources: its handlers for creation, change and deletion work by
differences and annotations, while this operator works by the observed state.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import kopf

from agentrl_components.spec import GROUP, VERSION
from agentrl_components.spec.crd.definition import PLURAL
from agentrl_operator.clients.kubernetes_connection import login
from agentrl_operator.clients.pods import creation_problem
from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.controller.controller import Controller
from agentrl_operator.errors import KubernetesError
from agentrl_operator.manifests.labels import FINGERPRINT, MANAGED_BY, MANAGER, RUN_UID
from agentrl_operator.manifests.workload import GROUP as KUEUE
from agentrl_operator.manifests.workload import PLURAL as KUEUE_PLURAL
from agentrl_operator.manifests.workload import VERSION as KUEUE_VERSION
from agentrl_operator.planning.observation import Servers

DEPLOYMENTS = ("apps", "v1", "deployments")
WORKLOADS = (KUEUE, KUEUE_VERSION, KUEUE_PLURAL)


def handlers(
    controller: Controller,
    *,
    workloads: bool,
    stop: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    """Kopf's handlers, which pass events to `controller`.

    Args:
        controller: Reconciles the runs.
        workloads: Whether to watch Kueue's Workloads, too.
        stop: Called when the operator is asked to stop. After it, Kopf waits up to five seconds
            for every task that was started after its own.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    # Kopf's index is not used: it would keep every object of every kind in memory until the last
    # one is indexed. The app lists Deployments first, so that they are known when runs are
    # reconciled.
    @kopf.on.event(*DEPLOYMENTS, labels={MANAGED_BY: MANAGER}, registry=registry)
    async def deployment_event(event: kopf.RawEvent, **_: Any) -> None:
        controller.record_event()
        pass_deployment(controller, event["object"], deleted=event["type"] == "DELETED")

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def run_event(event: kopf.RawEvent, **_: Any) -> None:
        controller.record_event()
        body = event["object"]
        if event["type"] == "DELETED":
            controller.run_deleted(body["metadata"]["uid"])
        else:
            controller.run_changed(body)

    @kopf.on.cleanup(registry=registry)
    async def clean_up(**_: Any) -> None:
        await stop()

    if workloads:

        @kopf.on.event(*WORKLOADS, labels={MANAGED_BY: MANAGER}, registry=registry)
        async def workload_event(body: kopf.Body, **_: Any) -> None:
            controller.record_event()
            controller.workload_changed(body.metadata.labels.get(RUN_UID, ""))

    return registry


def settings(*, namespaced: bool) -> kopf.OperatorSettings:
    """Kopf's settings. `namespaced`: the operator may only read its own namespaces."""
    kopf_settings = kopf.OperatorSettings()
    kopf_settings.posting.enabled = False  # the controller creates its own Events
    kopf_settings.posting.level = logging.WARNING
    kopf_settings.persistence.finalizer = f"{GROUP}/kopf"
    kopf_settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    kopf_settings.persistence.diffbase_storage = _NoDiffBase()
    kopf_settings.networking.request_timeout = 30
    kopf_settings.networking.connect_timeout = 5
    kopf_settings.watching.server_timeout = 600
    kopf_settings.watching.connect_timeout = 5
    kopf_settings.watching.chunk_size = 50
    kopf_settings.watching.label_selectors[DEPLOYMENTS] = f"{MANAGED_BY}={MANAGER}"
    kopf_settings.watching.label_selectors[WORKLOADS] = f"{MANAGED_BY}={MANAGER}"
    # Kopf keeps an object in memory this long after its last event. With the default of 5 s, a
    # list of all objects would be in memory at once.
    kopf_settings.queueing.idle_timeout = 0.1
    kopf_settings.execution.max_workers = 2
    kopf_settings.scanning.disabled = namespaced  # a Role does not allow requests to the cluster
    return kopf_settings


class _NoDiffBase(kopf.DiffBaseStorage):
    """Kopf would copy every object of every event twice, to compute differences that no handler
    uses."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


def pass_deployment(
    controller: Controller, body: Mapping[str, Any], *, deleted: bool = False
) -> tuple[str, str]:
    """Pass a Deployment to the controller. Returns the uid of its run and its name."""
    metadata = body["metadata"]
    uid, name = metadata.get("labels", {}).get(RUN_UID, ""), metadata["name"]
    deleted = deleted or "deletionTimestamp" in metadata
    controller.servers_changed(uid, name, None if deleted else read_servers(body))
    return uid, name


def read_servers(body: Mapping[str, Any]) -> Servers:
    """The environment servers of a Deployment, an object of the Kubernetes API."""
    metadata, status = body["metadata"], body.get("status") or {}
    return Servers(
        manifest=metadata.get("annotations", {}).get(FINGERPRINT, ""),
        ready=status.get("readyReplicas", 0),
        wanted=body["spec"].get("replicas", 1),
        outdated=status.get("replicas", 0) - status.get("updatedReplicas", 0),
        observed=status.get("observedGeneration", 0) >= metadata.get("generation", 0),
        problem=creation_problem(status),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relist:
    """Lists all objects, so that a watch that fell silent delays a run by minutes at most. Every
    method may raise `KubernetesError`."""

    controller: Controller
    cluster: Cluster
    namespaces: tuple[str, ...] = ()
    """Namespaces to list. Empty: all."""
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Namespaces that Kubernetes refuses to list, which are left out, and its message."""

    async def with_readable(self) -> Relist:
        """The same with those namespaces that may be read now. With a Role in each namespace, the
        rights in one are gone while it is deleted, which must not stop the runs of the others.
        Raises `KubernetesError` if all are refused."""
        readable, refused, error = [], {}, None
        for namespace in sorted({*self.namespaces, *self.refused}):
            try:
                await self.cluster.ping(namespace)
                readable.append(namespace)
            except KubernetesError as refusal:
                if refusal.status != 403:
                    raise
                refused[namespace], error = str(refusal), refusal
        if error is not None and not readable:
            raise error
        return replace(self, namespaces=tuple(readable), refused=refused)

    async def ping(self) -> None:
        """Return when the API server has answered a request for runs."""
        await self.cluster.ping(self._scopes[0])

    async def runs(self) -> None:
        """Pass all AgentRLRuns to the controller, and drop those that no longer exist."""
        before, found = self.controller.runs(), set()
        for namespace in self._scopes:
            async for body in self.cluster.list_runs(namespace):
                found.add(body["metadata"]["uid"])
                self.controller.run_changed(body)
        for uid in before - found:
            self.controller.run_deleted(uid)

    async def deployments(self) -> None:
        """Pass all Deployments to the controller, and drop those that no longer exist."""
        before, found = self.controller.servers(), set()
        for namespace in self._scopes:
            async for body in self.cluster.list_deployments(namespace):
                found.add(pass_deployment(self.controller, body))
        for uid, name in before - found:
            self.controller.servers_changed(uid, name, None)

    @property
    def _scopes(self) -> tuple[str | None, ...]:
        return self.namespaces or (None,)
