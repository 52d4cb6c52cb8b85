"""Looks around for what `reconcile` decides by: as much as the decision needs, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from agentrl_components.spec import Storage
from agentrl_components.state import State, Verdict
from agentrl_operator import admission, workload
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.errors import KfpError, StandingError
from agentrl_operator.neighbours import Neighbours
from agentrl_operator.observed import KfpRun, Observed, Servers, Unknown
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status
from agentrl_operator.workload import Workload
from agentrl_pipelines import placement
from agentrl_pipelines.platform import Platform

WORKFLOW_LOOK_S = 60.0
"""Between two looks whether a running KFP run still has its Workflow. Missed twice, it is lost:
KFP itself would say RUNNING for ever."""


class Observer:
    """Sees one run at a time, with everything it needs asked anew."""

    def __init__(
        self,
        neighbours: Neighbours,
        platform: Platform,
        servers: Callable[[str], Mapping[str, Servers]],
        clock: Callable[[], float],
    ) -> None:
        self._around = neighbours
        self._platform = platform
        self._servers = servers
        self._clock = clock
        self._looked: dict[str, tuple[str, float, bool]] = {}

    def forget(self, uid: str) -> None:
        """The run is gone."""
        self._looked.pop(uid, None)

    async def look(self, resource: Resource, status: Status) -> Observed:
        """What is to be seen now. Raises `KubernetesError`; who else does not answer is part of
        the answer."""
        servers = self._servers(resource.uid)
        queued = await self._queued(resource, status)
        never_began = resource.run is None and status.start_time is None
        if status.finished or never_began:
            return Observed(attempt=status.attempt, servers=servers, workload=queued)
        attempt, kfp = await self._newest(resource, status)
        run_id = resource.run_id(status.phase_index, attempt)
        workflow = await self._workflow(resource, run_id, kfp)
        over = isinstance(kfp, KfpRun) and (not kfp.alive or workflow == "lost")
        came_to_nothing = over and isinstance(kfp, KfpRun) and not kfp.succeeded
        pods = None
        if came_to_nothing or self._stopping(resource, status, queued):
            pods = await self._around.cluster.working_pods(resource.namespace, run_id)
        seen = Observed(
            attempt=attempt,
            kfp=kfp,
            workflow=workflow,
            pods=pods,
            servers=servers,
            workload=queued,
        )
        if resource.run is None or kfp is None or resource.deleted_at is not None:
            return seen
        storage = placement.storage(resource.run, resource.uid, self._platform)
        return replace(
            seen,
            standing=await self._standing(storage),
            verdict=await self._verdict(storage, status.phase_index) if over else None,
            mlflow_run=None if status.mlflow_run else await self._tracked(resource, storage),
        )

    def _stopping(self, resource: Resource, status: Status, queued: Workload | None) -> bool:
        asked = resource.suspend or resource.deleted_at is not None
        under_way = status.says(Kind.SUSPENDED, "False", Reason.SUSPENDING)
        evicted = queued is not None and not queued.admitted
        return (asked or under_way or evicted) and status.start_time is not None

    async def _queued(self, resource: Resource, status: Status) -> Workload | None:
        if not admission.concerns(resource, status, self._platform):
            return None
        name = workload.name(resource)
        body = await self._around.cluster.workload(resource.namespace, name)
        return workload.read(body) if body is not None else None

    async def _newest(
        self, resource: Resource, status: Status
    ) -> tuple[int, KfpRun | Unknown | None]:
        """The newest attempt at the phase. More than one step beyond the status only where that
        was lost."""
        attempt = status.attempt
        pipelines = self._around.pipelines
        try:
            kfp = await pipelines.get(resource.run_id(status.phase_index, attempt))
            while kfp is not None and not kfp.alive and not kfp.succeeded:
                later = await pipelines.get(resource.run_id(status.phase_index, attempt + 1))
                if later is None:
                    break
                attempt, kfp = attempt + 1, later
        except KfpError as error:
            return attempt, Unknown(why=str(error))
        return attempt, kfp

    async def _workflow(
        self, resource: Resource, run_id: str, kfp: KfpRun | Unknown | None
    ) -> Literal["unknown", "there", "lost"]:
        if not isinstance(kfp, KfpRun) or not kfp.alive:
            self._looked.pop(resource.uid, None)
            return "unknown"
        now = self._clock()
        known, when, missed = self._looked.get(resource.uid, ("", 0.0, False))
        if known != run_id:
            self._looked[resource.uid] = (run_id, now, False)
            return "unknown"
        if now - when < WORKFLOW_LOOK_S:
            return "unknown"
        missing = not await self._around.cluster.workflows(resource.namespace, run_id)
        self._looked[resource.uid] = (run_id, now, missing)
        if not missing:
            return "there"
        return "lost" if missed else "unknown"

    async def _standing(self, storage: Storage) -> State | Unknown | None:
        try:
            return await self._around.stores.standing(storage)
        except StandingError as error:
            return Unknown(why=str(error))

    async def _verdict(self, storage: Storage, phase: int) -> Verdict | Unknown | None:
        try:
            return await self._around.stores.verdict(storage, phase)
        except StandingError as error:
            return Unknown(why=str(error))

    async def _tracked(self, resource: Resource, storage: Storage) -> str | None:
        if resource.run is None or tracking_uri(resource, self._platform) is None:
            return None
        try:
            return await self._around.stores.tracked(storage)
        except StandingError:
            return None


def tracking_uri(resource: Resource, platform: Platform) -> str | None:
    """Where a run is tracked. None: nowhere that the operator could speak to."""
    own = resource.run.spec.tracking.uri if resource.run is not None else None
    uri = own or platform.tracking.uri
    return uri if uri is not None and uri.startswith(("http://", "https://")) else None
