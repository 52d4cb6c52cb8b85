"""Looks around for what `reconcile` decides by: as much as the decision needs, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agentrl_components.spec import Storage
from agentrl_components.storage.records import State, Verdict
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.pods import troubles, working
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.kueue_reader import Quotas
from agentrl_operator.controller.workflow_health import Pulse
from agentrl_operator.errors import KfpError, RunStoreError
from agentrl_operator.manifests.workload import Workload
from agentrl_operator.planning.observation import Observation, Servers, Unknown
from agentrl_pipelines.labels import KFP_RUN_LABEL, RUN_LABEL
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform


class Observer:
    """Sees one run at a time, with everything it needs asked anew."""

    def __init__(
        self,
        clients: Clients,
        platform: Platform,
        servers: Callable[[str], Mapping[str, Servers]],
        clock: Callable[[], float],
    ) -> None:
        self._around = clients
        self._platform = platform
        self._servers = servers
        self._quotas = Quotas(clients.cluster.kueue, platform, clock)
        self._pulse = Pulse(clients.cluster, clock)

    def forget(self, uid: str) -> None:
        """The run is gone."""
        self._pulse.forget(uid)

    async def look(self, resource: Resource, status: Status) -> Observation:
        """What is to be seen now. Raises `KubernetesError`; who else does not answer is part of
        the answer."""
        quota = await self._quotas.look(resource, status)
        seen = Observation(
            attempt=status.attempt,
            servers=self._servers(resource.uid),
            workload=quota.workload,
            nodes=quota.nodes,
            priority=quota.priority,
        )
        never_began = resource.run is None and status.start_time is None
        if status.finished:
            return seen
        if resource.deleted_at is not None:
            return await self._leaving(resource, status, seen)
        if never_began:
            return seen
        attempt, kfp = await self._newest(resource, status)
        run_id = resource.run_id(status.phase_index, attempt)
        behind = any(one.ready < one.wanted for one in seen.servers.values())
        beat = await self._pulse.feel(resource, run_id, kfp, behind=behind)
        over = isinstance(kfp, KfpRun) and (not kfp.alive or beat.workflow == "lost")
        came_to_nothing = over and isinstance(kfp, KfpRun) and not kfp.succeeded
        seen = replace(
            seen, attempt=attempt, kfp=kfp, workflow=beat.workflow, pod_problem=beat.trouble
        )
        if came_to_nothing or self._stopping(resource, status, quota.workload):
            cluster, namespace = self._around.cluster, resource.namespace
            found = await cluster.list_pods(namespace, KFP_RUN_LABEL, (run_id,))
            seen = replace(seen, pods=working(found), pod_problem=troubles(found))
        if resource.run is None or kfp is None:
            return seen
        storage = resolve.run_storage(resource.run, resource.uid, self._platform)
        return replace(
            seen,
            run_state=await self._standing(storage),
            decision=await self._verdict(storage, status.phase_index) if over else None,
            mlflow_run=None if status.mlflow_run else await self._tracked(resource, storage),
        )

    def _stopping(self, resource: Resource, status: Status, queued: Workload | None) -> bool:
        under_way = status.has_condition(Kind.SUSPENDED, "False", Reason.SUSPENDING)
        evicted = queued is not None and not queued.admitted
        return (resource.suspend or under_way or evicted) and status.start_time is not None

    async def _leaving(self, resource: Resource, status: Status, seen: Observation) -> Observation:
        """What a deleted run leaves: a status that was lost may not know of all that works. KFP
        knows; where it does not answer, the pods tell."""
        cluster, namespace = self._around.cluster, resource.namespace
        attempt, kfp = await self._newest(resource, status)
        own = resource.run_id(status.phase_index, attempt)
        runs: Mapping[str, KfpRun] = {}
        if not isinstance(kfp, Unknown):
            try:
                runs = await self._around.pipelines.list_runs(resource.experiment, namespace)
            except KfpError as error:
                kfp = Unknown(message=str(error))
        if isinstance(kfp, Unknown):
            mine = await cluster.list_pods(namespace, RUN_LABEL, (resource.name,))
            found = {pod.run_id for pod in mine if pod.run_id and not pod.ended}
            runs = dict.fromkeys(found, KfpRun(state="RUNTIME_STATE_UNSPECIFIED"))
        # Without its Workflow, which was made before KFP noted it, a run stays CANCELING for ever.
        asked = [run_id for run_id, run in runs.items() if run.state == "CANCELING"]
        lost = [run_id for run_id in asked if not await cluster.workflow_phases(namespace, run_id)]
        return replace(
            seen,
            attempt=attempt,
            kfp=kfp,
            others={one: run for one, run in runs.items() if one != own and one not in lost},
            workflow="lost" if own in lost else "unknown",
            pods=working(await cluster.list_pods(namespace, KFP_RUN_LABEL, {own, *runs})),
        )

    async def _newest(
        self, resource: Resource, status: Status
    ) -> tuple[int, KfpRun | Unknown | None]:
        """The newest attempt at the phase. More than one step beyond the status only where that
        was lost."""
        attempt = status.attempt
        pipelines = self._around.pipelines
        try:
            kfp = await pipelines.get_run(resource.run_id(status.phase_index, attempt))
            while kfp is not None and not kfp.alive and not kfp.succeeded:
                later = await pipelines.get_run(resource.run_id(status.phase_index, attempt + 1))
                if later is None:
                    break
                attempt, kfp = attempt + 1, later
        except KfpError as error:
            return attempt, Unknown(message=str(error))
        return attempt, kfp

    async def _standing(self, storage: Storage) -> State | Unknown | None:
        try:
            return await self._around.stores.read_state(storage)
        except RunStoreError as error:
            return Unknown(message=str(error))

    async def _verdict(self, storage: Storage, phase: int) -> Verdict | Unknown | None:
        try:
            return await self._around.stores.read_decision(storage, phase)
        except RunStoreError as error:
            return Unknown(message=str(error))

    async def _tracked(self, resource: Resource, storage: Storage) -> str | None:
        if resource.run is None or tracking_uri(resource, self._platform) is None:
            return None
        try:
            return await self._around.stores.read_mlflow_run(storage)
        except RunStoreError:
            return None


def tracking_uri(resource: Resource, platform: Platform) -> str | None:
    """Where a run is tracked. None: nowhere that the operator could speak to."""
    own = resource.run.spec.tracking.uri if resource.run is not None else None
    uri = own or platform.tracking.uri
    return uri if uri is not None and uri.startswith(("http://", "https://")) else None
