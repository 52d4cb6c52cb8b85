"""What the operator can do about a run. Each action is idempotent: a repetition changes nothing.

`label` is the value of the label `action` of the metric `agentrl_operator_actions_total`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Literal

from agentrl_operator.manifests.workload import Priority
from agentrl_operator.manifests.workload_status import RunEvent
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer:
    """Add the operator's finalizer, so that a deletion waits for the clean-up."""

    label: ClassVar[str] = "add_finalizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer:
    """Remove the operator's finalizer."""

    label: ClassVar[str] = "remove_finalizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTokenSecret:
    """Create the Secret with the bearer token of the run's environment servers, if it does not
    exist. If it is created, existing servers are deleted: they use an older token."""

    label: ClassVar[str] = "create_token_secret"

    servers: tuple[str, ...] = ()
    """Names of the existing Deployments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEnvironment:
    """Create or update the Deployment or the Sandboxes, and the Service, of an environment."""

    label: ClassVar[str] = "apply_environment"

    environment: str
    nodes: PodSetInfo = UNCONSTRAINED
    """Node labels and tolerations for its pods."""
    exists: bool = False
    """Whether its Deployment or some of its Sandboxes exist."""
    keep_servers: bool = False
    """Whether servers are kept that differ only by what the platform determines, or do not differ.
    Missing ones are created, and their number is made right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleEnvironment:
    """Set the number of servers of an environment. Of the servers, those with the fewest sessions
    are removed first."""

    label: ClassVar[str] = "scale_environment"

    deployment: str
    replicas: int
    sessions: Mapping[str, int]
    """Open sessions by pod; empty if no server is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyAutoscaler:
    """Create or update the HorizontalPodAutoscaler of an environment."""

    label: ClassVar[str] = "apply_autoscaler"

    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAutoscaler:
    """Delete the HorizontalPodAutoscaler of an environment that is no longer scaled."""

    label: ClassVar[str] = "delete_autoscaler"

    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDeployment:
    """Delete the Deployment of an environment and its autoscaler: idle servers occupy resources."""

    label: ClassVar[str] = "delete_deployment"

    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSandboxes:
    """Delete every Sandbox of the run, and their pods with them."""

    label: ClassVar[str] = "delete_sandboxes"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRayCluster:
    """Create the RayCluster of the run, if it does not exist."""

    label: ClassVar[str] = "create_ray_cluster"

    nodes: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """Where Kueue assigned its pods, by pod set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRayCluster:
    """Delete the RayCluster of the run, and its pods with it."""

    label: ClassVar[str] = "delete_ray_cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMlflowRun:
    """Create the MLflow run and write its ID to the run's store, if the store names none. An error
    of MLflow is logged and ignored."""

    label: ClassVar[str] = "create_mlflow_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishMlflowRun:
    """Set the final status of the MLflow run. An error of MLflow is logged; `mlflowFinished` of the
    status shows whether it worked."""

    label: ClassVar[str] = "finish_mlflow_run"

    run_id: str
    status: Literal["FINISHED", "FAILED", "KILLED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartKfpRun:
    """Create the KFP run of one attempt at a phase, if it does not exist."""

    label: ClassVar[str] = "start_kfp_run"

    run_id: str
    phase: int
    attempt: int
    first: bool = False
    """Whether nothing can have been started for the run before: it had no finalizer yet."""
    nodes: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """Where Kueue assigned the pods, by pod set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateKfpRun:
    """Ask KFP to terminate a run."""

    label: ClassVar[str] = "terminate_kfp_run"

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkflow:
    """Delete the Workflow of a KFP run, and its pods with it, without the help of KFP."""

    label: ClassVar[str] = "delete_workflow"

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkload:
    """Create the Kueue Workload that requests quota for the run, if it does not exist."""

    label: ClassVar[str] = "create_workload"

    priority: Priority | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWorkloadPriority:
    """Change the priority of the run's Workload. None: remove it."""

    label: ClassVar[str] = "set_workload_priority"

    priority: Priority | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateWorkloadStatus:
    """Report in the Workload's status that the run started, stopped after an eviction, or ended.
    The last two release the quota."""

    label: ClassVar[str] = "update_workload_status"

    event: RunEvent
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload:
    """Delete the run's Workload, which releases its quota."""

    label: ClassVar[str] = "delete_workload"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKfpRuns:
    """Delete the KFP runs and the KFP experiment of a run. An error of KFP is logged and
    ignored."""

    label: ClassVar[str] = "delete_kfp_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRunData:
    """Delete everything under the run's prefix in the object store. The actions after it have to
    wait until nothing is left, which may take several executions."""

    label: ClassVar[str] = "delete_run_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportKeptData:
    """Say in an Event and in the log that the data of a deleted run is kept, or a part of it,
    although its manifest says otherwise. An error of Kubernetes is logged and ignored."""

    label: ClassVar[str] = "report_kept_data"

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResource:
    """Delete the AgentRLRun itself, when its time to live is over."""

    label: ClassVar[str] = "delete_resource"


Action = (
    AddFinalizer
    | RemoveFinalizer
    | CreateTokenSecret
    | ApplyEnvironment
    | ScaleEnvironment
    | ApplyAutoscaler
    | DeleteAutoscaler
    | DeleteDeployment
    | DeleteSandboxes
    | CreateRayCluster
    | DeleteRayCluster
    | CreateMlflowRun
    | FinishMlflowRun
    | StartKfpRun
    | TerminateKfpRun
    | DeleteWorkflow
    | CreateWorkload
    | SetWorkloadPriority
    | UpdateWorkloadStatus
    | DeleteWorkload
    | DeleteKfpRuns
    | DeleteRunData
    | ReportKeptData
    | DeleteResource
)
