"""Executes the actions of a plan, one at a time."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.conditions import Reason
from agentrl_operator.api.kfp_run import Submission
from agentrl_operator.api.resource import (
    Resource,
    listed_tracking_uri,
    mlflow_url,
    stage_tracking_uri,
    tracking_uri,
)
from agentrl_operator.api.status import Status
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.errors import (
    DependencyError,
    KfpError,
    KubernetesError,
    MlflowError,
    RunStoreError,
    is_quota_used_up,
)
from agentrl_operator.manifests import (
    autoscaling,
    environment_server,
    ray_cluster,
    sandbox,
    server_fingerprint,
    workload,
    workload_status,
)
from agentrl_operator.manifests.metadata import Manifest
from agentrl_operator.planning import actions, progress
from agentrl_operator.planning.actions import Action
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Executes actions of all runs."""

    clients: Clients
    platform: Platform
    count_error: Callable[[DependencyError], None]
    """Counts in the metrics an error after which the run goes on. Errors that are raised are
    counted by the caller."""

    async def execute(
        self, action: Action, resource: Resource, metadata: Mapping[str, Any], status: Status
    ) -> Status | None:
        """Execute an action other than `AddFinalizer`, whose result the controller caches. Returns
        `status` with what became known by it. None: the action is not complete, and has to be
        executed again before the next one.

        Raises:
            DependencyError: The action failed.
        """
        cluster, pipelines = self.clients.cluster, self.clients.pipelines
        match action:
            case actions.RemoveFinalizer():
                await cluster.remove_finalizer(metadata)
            case actions.CreateTokenSecret(servers=servers):
                await self._create_token_secret(resource, servers)
            case actions.ApplyEnvironment():
                await self._apply_environment(resource, action)
            case actions.ScaleEnvironment(deployment=name, replicas=replicas, sessions=sessions):
                await cluster.fleet.set_deletion_costs(resource.namespace, sessions)
                await cluster.fleet.scale(resource.namespace, name, replicas)
            case actions.ApplyAutoscaler(environment=name):
                await self._apply_autoscaler(resource, name)
            case actions.DeleteAutoscaler(deployment=name):
                await cluster.fleet.delete_autoscaler(resource.namespace, name)
            case actions.DeleteDeployment(deployment=name):
                await cluster.fleet.delete_autoscaler(resource.namespace, name)
                await cluster.delete_deployment(resource.namespace, name)
            case actions.DeleteSandboxes():
                await cluster.agent_sandbox.delete_sandboxes(resource.namespace, resource.uid)
            case actions.CreateRayCluster(nodes=nodes):
                run = _run(resource)
                made = ray_cluster.manifest(resource, run, self.platform, nodes)
                await cluster.create(made)
            case actions.DeleteRayCluster():
                name = ray_cluster.name(resource)
                await cluster.kuberay.delete_ray_cluster(resource.namespace, name)
            case actions.CreateMlflowRun():
                return await self._create_mlflow_run(resource, status)
            case actions.FinishMlflowRun():
                return await self._finish_mlflow_run(resource, action, status)
            case actions.StartKfpRun():
                await pipelines.start_run(self._submission(resource, action, status))
            case actions.TerminateKfpRun(run_id=run_id):
                await pipelines.terminate_run(run_id)
            case actions.DeleteWorkflow(run_id=run_id):
                await cluster.delete_workflows(resource.namespace, run_id)
            case actions.CreateWorkload(priority=priority):
                await cluster.create(workload.manifest(resource, _run(resource), priority))
            case actions.SetWorkloadPriority(priority=priority):
                change = workload.priority_fields(priority)
                name = workload.name(resource)
                await cluster.kueue.patch_workload_spec(resource.namespace, name, change)
            case actions.UpdateWorkloadStatus():
                await self._update_workload_status(resource, action)
            case actions.DeleteWorkload():
                await cluster.kueue.delete_workload(resource.namespace, workload.name(resource))
            case actions.DeleteKfpRuns():
                await self._delete_kfp_runs(resource)
            case actions.DeleteRunData():
                storage = resolve.run_storage(_run(resource), resource.uid, self.platform)
                if not await self.clients.stores.delete_run_data(storage):
                    return None
            case actions.ReportKeptData(message=message):
                await self._report_kept_data(resource, message)
            case actions.DeleteResource():
                await cluster.delete_run(resource)
        return status

    async def _create_token_secret(self, resource: Resource, servers: tuple[str, ...]) -> None:
        secret = environment_server.token_secret(resource, secrets.token_urlsafe(32))
        cluster = self.clients.cluster
        try:
            created = await cluster.create(secret)
        except KubernetesError as error:
            if not (servers and is_quota_used_up(error)):
                raise
            # Servers have been created with it, so it should exist: quotas count a repetition. If
            # it does not, pods cannot start, which is reported.
            logger.info("%s/%s: %s", resource.namespace, resource.name, error)
            return
        if created:
            for name in servers:
                await cluster.delete_deployment(resource.namespace, name)
            if sandbox.is_wanted(_run(resource)):
                await cluster.agent_sandbox.delete_sandboxes(resource.namespace, resource.uid)

    async def _apply_environment(
        self, resource: Resource, action: actions.ApplyEnvironment
    ) -> None:
        run, environment = _run(resource), _environment(resource, action.environment)
        cluster, scaled = self.clients.cluster, environment.scaling is not None
        await self._restore(environment_server.service(resource, environment))
        if scaled:
            await self._restore(autoscaling.disruption_budget(resource, environment))
        if sandbox.is_sandboxed(environment):
            wanted = sandbox.manifests(resource, run, environment, self.platform, action.nodes)
            await self._apply_sandboxes(resource, environment, wanted, action.keep_servers)
            return
        made = environment_server.deployment(
            resource, run, environment, self.platform, action.nodes
        )
        if not action.keep_servers:
            await cluster.apply(made, exists=action.exists, keep_replicas=scaled)
        else:
            await cluster.ensure(made, keep_replicas=scaled)

    async def _restore(self, manifest: Manifest) -> None:
        """Create an object if it does not exist. No quota counts the request if it does."""
        if not await self.clients.cluster.exists(manifest):
            await self.clients.cluster.create(manifest)

    async def _apply_sandboxes(
        self,
        resource: Resource,
        environment: Environment,
        wanted: Sequence[Manifest],
        keep_servers: bool,
    ) -> None:
        """Delete the Sandboxes of an environment that differ from the wanted ones, and create the
        missing ones. A deleted Sandbox is created again by a later action, once it is gone."""
        same = server_fingerprint.is_same_run if keep_servers else server_fingerprint.is_current
        cluster, namespace = self.clients.cluster, resource.namespace
        found = await cluster.agent_sandbox.list_sandboxes(namespace, resource.uid) or ()
        expected = {one["metadata"]["name"]: sandbox.created_from(one) for one in wanted}
        kept = set[str]()
        for one in sandbox.of_environment(found, environment):
            name = one["metadata"]["name"]
            if name in expected and same(sandbox.created_from(one), expected[name]):
                kept.add(name)
            else:
                await cluster.agent_sandbox.delete_sandbox(namespace, name)
        for manifest in wanted:
            if manifest["metadata"]["name"] not in kept:
                await cluster.create(manifest)

    async def _apply_autoscaler(self, resource: Resource, name: str) -> None:
        environment = _environment(resource, name)
        if environment.scaling is not None:
            await self.clients.cluster.fleet.apply_autoscaler(
                autoscaling.autoscaler(resource, environment, environment.scaling)
            )

    async def _update_workload_status(
        self, resource: Resource, action: actions.UpdateWorkloadStatus
    ) -> None:
        name, kueue = workload.name(resource), self.clients.cluster.kueue
        body = await kueue.get_workload(resource.namespace, name)
        if body is None:
            return
        change = workload_status.status_patch(body, action.event, action.at)
        if change is not None:
            await kueue.patch_workload_status(resource.namespace, name, change)

    def _submission(
        self, resource: Resource, action: actions.StartKfpRun, status: Status
    ) -> Submission:
        run = _run(resource)
        manifest = resolve.cluster_manifest(run, resource.uid, self.platform)
        admission = KueueAdmission(priority_class=resource.priority_class, pod_sets=action.nodes)
        return Submission(
            run_id=action.run_id,
            name=f"{resource.name}: {progress.phase_text(run, status)}",
            experiment=resource.experiment,
            namespace=resource.namespace,
            pipeline_spec=self.clients.bind(run, resource.uid, self.platform, admission),
            parameters={
                "manifest": manifest.model_dump_json(by_alias=True, exclude_defaults=True),
                "phase": action.phase,
                "attempt": action.attempt,
            },
            service_account=run.spec.compute.service_account,
            first=action.first,
            tracked=stage_tracking_uri(resource, self.platform) is not None,
        )

    async def _create_mlflow_run(self, resource: Resource, status: Status) -> Status:
        run, uri = _run(resource), tracking_uri(resource, self.platform)
        if uri is None:
            return status
        storage = resolve.run_storage(run, resource.uid, self.platform)
        stores, tracking = self.clients.stores, self.clients.tracking
        try:
            run_id = (await stores.read_mlflow_run(storage)).run_id
            if run_id is None:
                experiment = run.spec.tracking.experiment
                run_id = await tracking.ensure_run(uri, experiment, resource.name, resource.uid)
                await stores.write_mlflow_run(storage, run_id, uri)
        except (MlflowError, RunStoreError) as error:
            self._tolerate(error, "no MLflow run for now")
            return status
        url = mlflow_url(run_id, run, self.platform)
        return status.with_(mlflow_run=run_id, mlflow_url=url)

    async def _finish_mlflow_run(
        self, resource: Resource, action: actions.FinishMlflowRun, status: Status
    ) -> Status:
        uri, run_id = await self._mlflow_run(resource, action)
        if uri is None:
            return status
        try:
            await self.clients.tracking.finish_run(uri, run_id, action.status)
        except MlflowError as error:
            self._tolerate(error, "the MLflow run was not finished")
            return status
        return status.with_(mlflow_finished=True)

    async def _mlflow_run(
        self, resource: Resource, action: actions.FinishMlflowRun
    ) -> tuple[str | None, str]:
        """The server and the id of the MLflow run, as the stages recorded them last, else as the
        manifest and the status say. No server: the operator may send nothing to it."""
        stated = tracking_uri(resource, self.platform), action.run_id
        if resource.run is None:
            return stated
        storage = resolve.run_storage(resource.run, resource.uid, self.platform)
        try:
            record = await self.clients.stores.read_mlflow_run(storage)
        except RunStoreError as error:
            self._tolerate(error, "the record of the MLflow run was not read")
            return stated
        if record.run_id is None or record.uri is None:
            return stated
        return listed_tracking_uri(record.uri, self.platform), record.run_id

    async def _delete_kfp_runs(self, resource: Resource) -> None:
        try:
            await self.clients.pipelines.delete_experiment(resource.experiment, resource.namespace)
        except KfpError as error:
            self._tolerate(error, "the KFP runs were not deleted")

    async def _report_kept_data(self, resource: Resource, message: str) -> None:
        logger.warning("%s/%s: %s", resource.namespace, resource.name, message)
        try:
            await self.clients.cluster.create_event(resource, "Warning", Reason.DATA_KEPT, message)
        except KubernetesError as error:
            self._tolerate(error, "no Event was created")

    def _tolerate(self, error: DependencyError, consequence: str) -> None:
        self.count_error(error)
        logger.warning("%s: %s", consequence, error)


def _run(resource: Resource) -> AgentRLRun:
    if resource.run is None:
        raise TypeError("this action needs a valid manifest")
    return resource.run


def _environment(resource: Resource, name: str) -> Environment:
    return next(one for one in _run(resource).spec.environments if one.name == name)
