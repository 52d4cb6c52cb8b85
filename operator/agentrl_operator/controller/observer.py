"""Observes a run's dependencies: as much as `reconcile` needs for its decision, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agentrl_components.schedule.record import Decision
from agentrl_components.spec import Storage
from agentrl_components.storage.records import RunState, TrackerRecord
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource, mlflow_url, stage_tracking_uri
from agentrl_operator.api.status import Status
from agentrl_operator.clients.pods import problem_summary, stuck_summary, working
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.addon_reader import (
    Sandboxes,
    read_ray_cluster,
    read_sandboxes,
)
from agentrl_operator.controller.condition_timer import ConditionTimer
from agentrl_operator.controller.error_guard import RunGuard
from agentrl_operator.controller.fleet_reader import FleetReader
from agentrl_operator.controller.kueue_reader import KueueObservation, KueueReader
from agentrl_operator.controller.workflow_health import WorkflowHealth
from agentrl_operator.errors import KfpError, RunStoreError
from agentrl_operator.manifests.workload import Workload
from agentrl_operator.planning.observation import Observation, RayCluster, Servers, Unknown
from agentrl_pipelines.labels import KFP_RUN_LABEL, RUN_LABEL
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform


class Observer:
    """Observes one run at a time, always by new requests."""

    def __init__(
        self,
        clients: Clients,
        platform: Platform,
        servers: Callable[[str], Mapping[str, Servers]],
        clock: Callable[[], float],
    ) -> None:
        """`servers` returns the watched Deployments of the run with a uid, by name."""
        self._clients = clients
        self._platform = platform
        self._servers = servers
        self._clock = clock
        self._kueue = KueueReader(clients.cluster.kueue, platform, clock)
        self._health = WorkflowHealth(clients.cluster, clock)
        self._fleet = FleetReader(clients.cluster.fleet, clock)
        self._deleting, self._ray_blocked = ConditionTimer(clock), ConditionTimer(clock)

    def forget(self, uid: str) -> None:
        """Drop what is kept of a run that was deleted."""
        for kept in (self._health, self._fleet, self._deleting, self._ray_blocked):
            kept.forget(uid)

    async def observe(self, resource: Resource, status: Status) -> Observation:
        """The observation of a run. A value is `Unknown` if KFP or the store did not answer. Of a
        run that is being deleted, what Kubernetes does not show is left out, and if the observation
        fails unexpectedly, all values are unknown: the deletion goes on after its timeouts.

        Raises:
            KubernetesError: The API server did not answer, and the run is not being deleted.
        """
        guard = _guard(resource)
        with guard.errors_of_deletion("is deleted unobserved") as caught:
            return await self._observe(resource, status)
        return Observation(
            attempt=status.attempt,
            kfp=Unknown(message=str(caught)),
            servers=self._servers(resource.uid),
            deleting_s=self._deleting_s(resource),
        )

    async def _observe(self, resource: Resource, status: Status) -> Observation:
        cluster, read = self._clients.cluster, _guard(resource).read
        # Kubernetes deletes these objects with the run that owns them.
        kueue = await read(self._kueue.read(resource, status), KueueObservation())
        sandboxes = await read(read_sandboxes(cluster, resource), Sandboxes(unread=True))
        unread = Unknown(message="Kubernetes does not show the Ray cluster")
        ray = await read(read_ray_cluster(cluster, resource, status), unread)
        blocked = isinstance(ray, RayCluster) and ray.blocked
        observation = Observation(
            attempt=status.attempt,
            deleting_s=self._deleting_s(resource),
            servers={**self._servers(resource.uid), **sandboxes.servers},
            sandboxes_unavailable=sandboxes.problem,
            sandboxes_unread=sandboxes.unread,
            workload=kueue.workload,
            nodes=kueue.nodes,
            priority=kueue.priority,
            ray_cluster=ray,
            ray_blocked_s=self._ray_blocked.update(resource.uid, observed=blocked),
        )
        if status.finished:
            return observation
        if resource.deleted_at is not None:
            return await self._with_remaining_work(resource, status, observation)
        owned = observation.servers or observation.ray_cluster or observation.workload
        if resource.run is None and status.start_time is None and not owned:
            return observation  # nothing was started
        if observation.servers:
            observation = replace(observation, fleets=await self._fleet.read(resource))
        observation = await self._with_kfp_run(resource, status, observation)
        return await self._with_stored_records(resource, status, observation)

    async def _with_kfp_run(
        self, resource: Resource, status: Status, observation: Observation
    ) -> Observation:
        """`observation` with the newest attempt's KFP run and its pods."""
        attempt, kfp = await self._newest_attempt(resource, status)
        run_id = resource.run_id(status.phase_index, attempt)
        ray = observation.ray_cluster
        lacking = isinstance(ray, RayCluster) and ray.may_lack_object
        servers = observation.servers
        health = await self._health.check(resource, run_id, kfp, servers, lacking=lacking)
        since = health.blocked_since
        alive = isinstance(kfp, KfpRun) and kfp.alive
        waits = alive or kfp is None
        observation = replace(
            observation,
            attempt=attempt,
            kfp=kfp,
            workflow=health.workflow if alive else "unknown",
            # The operator may have ended the attempt because a pod could not start: that stays its
            # cause.
            pod_problem=health.pod_problem if alive or since is not None else "",
            server_problem=health.server_problem if waits else "",
            waits_for=health.waits_for if waits else None,
            queued=health.queued and waits,
            blocked_s=self._clock() - since if since is not None and alive else None,
            restore_due=health.restore_due,
            may_lack_object=health.may_lack_object,
        )
        failed = _has_ended(observation) and not observation.phase_succeeded
        # Somebody may have deleted the KFP run in KFP: its pods end later.
        may_be_deleted = kfp is None and resource.has_finalizer
        if failed or may_be_deleted or self._is_stopping(resource, status, observation.workload):
            cluster, namespace = self._clients.cluster, resource.namespace
            pods = await cluster.list_pods(namespace, KFP_RUN_LABEL, (run_id,))
            problem = problem_summary(pods) or observation.pod_problem
            observation = replace(
                observation,
                pods=working(pods),
                stuck_pods=stuck_summary(pods),
                pod_problem=problem,
            )
        return observation

    async def _with_stored_records(
        self, resource: Resource, status: Status, observation: Observation
    ) -> Observation:
        """`observation` with what the run's store holds, if its KFP run may have written there."""
        if resource.run is None or observation.kfp is None:
            return observation
        storage = resolve.run_storage(resource.run, resource.uid, self._platform)
        phase, ended = status.phase_index, _has_ended(observation)
        return replace(
            observation,
            run_state=_of_attempt(await self._run_state(storage), phase, observation.attempt),
            decision=await self._decision(storage, phase) if ended else None,
            mlflow_run=await self._mlflow_run(resource, status, storage),
        )

    def _is_stopping(self, resource: Resource, status: Status, workload: Workload | None) -> bool:
        suspending = status.has_condition(Kind.SUSPENDED, "False", Reason.SUSPENDING)
        evicted = workload is not None and not workload.admitted
        return (resource.suspend or suspending or evicted) and status.start_time is not None

    async def _with_remaining_work(
        self, resource: Resource, status: Status, observation: Observation
    ) -> Observation:
        """`observation` with all work of a deleted run. A lost status does not name all work, so
        the KFP runs are listed by KFP or, if KFP does not answer, by their pods."""
        cluster, namespace = self._clients.cluster, resource.namespace
        read = _guard(resource).read
        attempt, kfp = await self._newest_attempt(resource, status)
        own = resource.run_id(status.phase_index, attempt)
        runs: Mapping[str, KfpRun] = {}
        if not isinstance(kfp, Unknown):
            try:
                runs = await self._clients.pipelines.list_runs(resource.experiment, namespace)
            except KfpError as error:
                kfp = Unknown(message=str(error))
        if kfp is None and not runs and status.start_time is None:
            # Nothing was started. It may be in a namespace whose pods the operator may not list.
            return replace(observation, attempt=attempt, pods=0)
        if isinstance(kfp, Unknown):
            runs = await self._runs_with_pods(resource)
        lost = await self._lost_runs(resource, runs)
        own_pods = await read(cluster.list_pods(namespace, KFP_RUN_LABEL, {own, *runs}), None)
        return replace(
            observation,
            attempt=attempt,
            kfp=kfp,
            others={one: run for one, run in runs.items() if one != own and one not in lost},
            workflow="lost" if own in lost else "unknown",
            pods=working(own_pods) if own_pods is not None else None,
            pods_unread=own_pods is None,
            stuck_pods=stuck_summary(own_pods or ()),
        )

    async def _runs_with_pods(self, resource: Resource) -> dict[str, KfpRun]:
        """The KFP runs of a deleted run that have a pod, by ID."""
        cluster, read = self._clients.cluster, _guard(resource).read
        pods = await read(cluster.list_pods(resource.namespace, RUN_LABEL, (resource.name,)), ())
        run_ids = {pod.run_id for pod in pods if pod.run_id and not pod.ended}
        return dict.fromkeys(run_ids, KfpRun(state="RUNTIME_STATE_UNSPECIFIED"))

    async def _lost_runs(self, resource: Resource, runs: Mapping[str, KfpRun]) -> list[str]:
        """Those of the KFP runs of a deleted run that KFP reports as CANCELING for ever, because
        their Workflow is gone. One that Kubernetes does not show may be there."""
        cluster, read = self._clients.cluster, _guard(resource).read
        canceling = [run_id for run_id, run in runs.items() if run.state == "CANCELING"]
        lost = []
        for run_id in canceling:
            found = await read(cluster.list_workflows(resource.namespace, run_id), None)
            if found is not None and not found:
                lost.append(run_id)
        return lost

    def _deleting_s(self, resource: Resource) -> float:
        """Seconds since the deletion of the run was first observed; 0 if it is not deleted."""
        deleted = resource.deleted_at is not None
        return self._deleting.update(resource.uid, observed=deleted) or 0.0

    async def _newest_attempt(
        self, resource: Resource, status: Status
    ) -> tuple[int, KfpRun | Unknown | None]:
        """The newest attempt at the phase, and its KFP run. Only if the status was lost is it more
        than one attempt ahead of the status."""
        attempt = status.attempt
        pipelines = self._clients.pipelines
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

    async def _run_state(self, storage: Storage) -> RunState | Unknown | None:
        try:
            return await self._clients.stores.read_state(storage)
        except RunStoreError as error:
            return Unknown(message=str(error))

    async def _decision(self, storage: Storage, phase: int) -> Decision | Unknown | None:
        try:
            return await self._clients.stores.read_decision(storage, phase)
        except RunStoreError as error:
            return Unknown(message=str(error))

    async def _mlflow_run(
        self, resource: Resource, status: Status, storage: Storage
    ) -> TrackerRecord | Unknown | None:
        """The recorded MLflow run, unless the status names one where the manifest says."""
        run, platform = resource.run, self._platform
        if run is None or stage_tracking_uri(resource, platform) is None:
            return None
        if status.mlflow_run and status.mlflow_url == mlflow_url(status.mlflow_run, run, platform):
            return None
        try:
            return await self._clients.stores.read_mlflow_run(storage)
        except RunStoreError as error:
            return Unknown(message=str(error))


def _guard(resource: Resource) -> RunGuard:
    """Contains the errors of the observation of a run."""
    return RunGuard(
        namespace=resource.namespace,
        name=resource.name,
        deleted=resource.deleted_at is not None,
    )


def _of_attempt(
    state: RunState | Unknown | None, phase: int, attempt: int
) -> RunState | Unknown | None:
    """`state` without the failure of an earlier attempt, which stays in the store until a stage of
    the present one writes there."""
    if not isinstance(state, RunState) or state.failed_attempt is None:
        return state
    if state.failed_in(phase, attempt):
        return state
    update = {"status": "running", "message": "", "reason": "", "final": False}
    return state.model_copy(update=update)


def _has_ended(observation: Observation) -> bool:
    """Whether the attempt's KFP run has ended, or never will because its Workflow is gone."""
    kfp = observation.kfp
    return isinstance(kfp, KfpRun) and (not kfp.alive or observation.workflow == "lost")
