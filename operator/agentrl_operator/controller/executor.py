"""Does what a plan says, an action at a time."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl_components.spec import AgentRLRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.clients.protocols import Clients, Submission
from agentrl_operator.controller.observer import tracking_uri
from agentrl_operator.errors import KfpError, MlflowError, RunStoreError
from agentrl_operator.manifests import environment_server, workload, workload_status
from agentrl_operator.planning import actions, progress
from agentrl_operator.planning.actions import Action
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Hands for all runs."""

    around: Clients
    platform: Platform

    async def perform(
        self, action: Action, resource: Resource, metadata: Mapping[str, Any], status: Status
    ) -> Status:
        """Do it; the status with what became known by it. Raises `Trouble`."""
        cluster, pipelines = self.around.cluster, self.around.pipelines
        match action:
            case actions.AddFinalizer():
                await cluster.add_finalizer(metadata)
            case actions.RemoveFinalizer():
                await cluster.remove_finalizer(metadata)
            case actions.CreateTokenSecret(servers=servers):
                if await cluster.create(
                    environment_server.token_secret(resource, secrets.token_urlsafe(32))
                ):
                    for name in servers:
                        await cluster.delete_deployment(resource.namespace, name)
            case actions.ApplyEnvironment():
                await self._apply(resource, action)
            case actions.DeleteDeployment(deployment=name):
                await cluster.delete_deployment(resource.namespace, name)
            case actions.CreateMlflowRun():
                return await self._track(resource, status)
            case actions.FinishMlflowRun():
                await self._close_tracker(resource, action)
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
                await self._tell_kueue(resource, action)
            case actions.DeleteWorkload():
                await cluster.kueue.delete_workload(resource.namespace, workload.name(resource))
            case actions.DeleteKfpRuns():
                await self._forget(resource)
            case actions.DeleteRunData():
                await self._erase(resource)
            case actions.DeleteResource():
                await cluster.delete_run(resource)
        return status

    async def _apply(self, resource: Resource, action: actions.ApplyEnvironment) -> None:
        run = _run(resource)
        environment = next(one for one in run.spec.environments if one.name == action.environment)
        await self.around.cluster.create(environment_server.service(resource, environment))
        await self.around.cluster.apply(
            environment_server.deployment(resource, run, environment, self.platform, action.nodes)
        )

    async def _tell_kueue(self, resource: Resource, action: actions.UpdateWorkloadStatus) -> None:
        name, kueue = workload.name(resource), self.around.cluster.kueue
        body = await kueue.get_workload(resource.namespace, name)
        change = None
        if body is not None:
            change = workload_status.status_patch(body, action.news, action.at)
        if change is not None:
            await kueue.patch_workload_status(resource.namespace, name, change)

    def _submission(
        self, resource: Resource, action: actions.StartKfpRun, status: Status
    ) -> Submission:
        run = _run(resource)
        manifest = resolve.cluster_manifest(run, resource.uid, self.platform)
        queued = KueueAdmission(priority_class=resource.priority_class, pod_sets=action.nodes)
        return Submission(
            run_id=action.run_id,
            name=f"{resource.name}: {progress.phase_text(run, status)}",
            experiment=resource.experiment,
            namespace=resource.namespace,
            pipeline_spec=self.around.bind(run, resource.uid, self.platform, queued),
            parameters={
                "manifest": manifest.model_dump_json(by_alias=True, exclude_defaults=True),
                "phase": action.phase,
                "attempt": action.attempt,
            },
            service_account=run.spec.compute.service_account,
            first=action.first,
            tracked=tracking_uri(resource, self.platform) is not None,
        )

    async def _track(self, resource: Resource, status: Status) -> Status:
        run, uri = _run(resource), tracking_uri(resource, self.platform)
        if uri is None:
            return status
        storage = resolve.run_storage(run, resource.uid, self.platform)
        try:
            known = await self.around.stores.read_mlflow_run(storage)
            if known is None:
                name = run.spec.tracking.experiment
                tracking = self.around.tracking
                known = await tracking.ensure_run(uri, name, resource.name, resource.uid)
                await self.around.stores.write_mlflow_run(storage, known)
        except (MlflowError, RunStoreError) as error:
            logger.warning("not tracked in MLflow for now: %s", error)
            return status
        url = progress.mlflow_url(known, run, self.platform)
        return status.with_(mlflow_run=known, mlflow_url=url)

    async def _close_tracker(self, resource: Resource, action: actions.FinishMlflowRun) -> None:
        uri = tracking_uri(resource, self.platform)
        if uri is None:
            return
        try:
            await self.around.tracking.finish_run(uri, action.run_id, action.status)
        except MlflowError as error:
            logger.warning("the MLflow run stays open: %s", error)

    async def _forget(self, resource: Resource) -> None:
        try:
            await self.around.pipelines.delete_experiment(resource.experiment, resource.namespace)
        except KfpError as error:
            logger.warning("the KFP runs stay: %s", error)

    async def _erase(self, resource: Resource) -> None:
        storage = resolve.run_storage(_run(resource), resource.uid, self.platform)
        if not await self.around.stores.delete_run_data(storage):
            raise RunStoreError(f"{storage.url}: is being emptied")


def _run(resource: Resource) -> AgentRLRun:
    if resource.run is None:
        raise TypeError("nothing is started for a manifest with mistakes")
    return resource.run
