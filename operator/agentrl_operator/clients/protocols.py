"""What the operator needs from the services around it, as protocols.

The implementations are `KubernetesApi`, `KfpApi`, `MlflowApi` and `RunStores`;
`agentrl_operator.testing` has others that run in memory. The protocols of the parts of `Cluster`
are beside their implementations, in `fleet` and in `addons`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agentrl_components.schedule.record import Decision
from agentrl_components.spec import AgentRLRun, Storage
from agentrl_components.storage.records import RunState, TrackerRecord
from agentrl_operator.api.kfp_run import KfpRun, Submission
from agentrl_operator.api.resource import Resource
from agentrl_operator.clients.addons.agent_sandbox import AgentSandbox
from agentrl_operator.clients.addons.kuberay import KubeRay
from agentrl_operator.clients.addons.kueue import Kueue
from agentrl_operator.clients.fleet import Fleet
from agentrl_operator.clients.pods import Pod
from agentrl_operator.clients.workflows import Workflow
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission

Bind = Callable[[AgentRLRun, str, Platform, KueueAdmission], Mapping[str, Any]]
"""(run, uid, platform, queued) -> the compiled pipeline of one phase of this run."""


class Cluster(Protocol):
    """The Kubernetes API. Every method may raise `KubernetesError`, and one that writes
    `NotLeaderError`."""

    @property
    def kueue(self) -> Kueue:
        """The objects of Kueue."""
        ...

    @property
    def fleet(self) -> Fleet:
        """Environment servers whose number changes."""
        ...

    @property
    def kuberay(self) -> KubeRay:
        """The objects of KubeRay."""
        ...

    @property
    def agent_sandbox(self) -> AgentSandbox:
        """The objects of agent-sandbox."""
        ...

    async def add_finalizer(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add our finalizer to the AgentRLRun with this metadata. Returns the updated object, an
        empty one if it no longer exists."""
        ...

    async def remove_finalizer(self, body: Mapping[str, Any]) -> None:
        """Remove our finalizer from the AgentRLRun with this metadata."""
        ...

    async def patch_status(
        self, resource: Resource, status: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Merge `status` into the status of a run. Returns the updated object, None if it no longer
        exists."""
        ...

    async def create_event(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Create an Event about a run."""
        ...

    async def create(self, manifest: Manifest) -> bool:
        """Create an object unless one of its name exists. Returns whether it was created.

        A ResourceQuota counts the request before Kubernetes finds that the object exists, until its
        controller counts the objects again, and refuses it if nothing is left."""
        ...

    async def exists(self, manifest: Manifest) -> bool:
        """Whether an object of this kind and name exists."""
        ...

    async def apply(
        self, manifest: Manifest, *, exists: bool = False, keep_replicas: bool = False
    ) -> None:
        """Create a Deployment or update the one of its name, whose number of replicas stays with
        `keep_replicas`. `exists`: it is known to exist."""
        ...

    async def ensure(self, manifest: Manifest, *, keep_replicas: bool = False) -> None:
        """Set the number of replicas of the Deployment of this name, unless `keep_replicas`, and
        change nothing else; create it if it does not exist."""
        ...

    async def delete_deployment(self, namespace: str, name: str) -> None:
        """Delete a Deployment if it exists."""
        ...

    async def delete_run(self, resource: Resource) -> None:
        """Delete an AgentRLRun if it exists."""
        ...

    async def delete_workflows(self, namespace: str, run_id: str) -> None:
        """Delete the Argo Workflows of a KFP run."""
        ...

    async def list_workflows(self, namespace: str, run_id: str) -> Sequence[Workflow]:
        """The Argo Workflows of a KFP run: one, unless it was submitted twice."""
        ...

    async def list_pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        """The pods whose `label` has one of `values`, without those that succeeded."""
        ...

    def list_runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        """Every AgentRLRun of a namespace, or of all namespaces for None."""
        ...

    def list_deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        """Every Deployment of the operator in a namespace, or in all namespaces for None."""
        ...

    async def ping(self, namespace: str | None) -> None:
        """Return once Kubernetes has answered a request for AgentRLRuns."""
        ...


class Pipelines(Protocol):
    """The run API of Kubeflow Pipelines. Every method may raise `KfpError`, and one that writes
    `NotLeaderError`."""

    async def get_run(self, run_id: str) -> KfpRun | None:
        """A run; None if KFP does not know it."""
        ...

    async def start_run(self, submission: Submission) -> None:
        """Start a run unless one of its id exists."""
        ...

    async def terminate_run(self, run_id: str) -> None:
        """Terminate a run; does nothing if it has ended or does not exist."""
        ...

    async def list_runs(self, experiment: str, namespace: str) -> Mapping[str, KfpRun]:
        """The runs of an experiment by id; empty if the experiment does not exist."""
        ...

    async def delete_experiment(self, experiment: str, namespace: str) -> None:
        """Delete an experiment and its runs."""
        ...


class Tracking(Protocol):
    """The MLflow server of a run, at `uri`. Every method may raise `MlflowError` and
    `NotLeaderError`."""

    async def ensure_run(self, uri: str, experiment: str, name: str, uid: str) -> str:
        """The id of the MLflow run for the AgentRLRun with this uid, which is created if there is
        none."""
        ...

    async def finish_run(self, uri: str, run_id: str, status: str) -> None:
        """End an MLflow run with the status FINISHED, FAILED or KILLED."""
        ...


class Stores(Protocol):
    """The object stores of all runs. Every method may raise `RunStoreError`."""

    async def read_state(self, storage: Storage) -> RunState | None:
        """The state that the stages last recorded; None if none has recorded any."""
        ...

    async def read_decision(self, storage: Storage, phase: int) -> Decision | None:
        """The decision at the end of a phase; None if the phase has not decided."""
        ...

    async def read_mlflow_run(self, storage: Storage) -> TrackerRecord:
        """The MLflow run of this run; without an id if none is recorded."""
        ...

    async def write_mlflow_run(self, storage: Storage, run_id: str, uri: str) -> None:
        """Record the id and the server of the MLflow run, for the stages to log to."""
        ...

    async def delete_run_data(self, storage: Storage) -> bool:
        """Delete objects of a run, as many as one call has time for. Returns whether none is
        left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The clients of one operator."""

    cluster: Cluster
    pipelines: Pipelines
    stores: Stores
    tracking: Tracking
    bind: Bind
