"""The manifest: `AgentRLRun` and its `spec`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.algorithm import Algorithm
from agentrl_components.spec.fields.compute import Compute
from agentrl_components.spec.fields.environments import NAME, Environment
from agentrl_components.spec.fields.evaluation import Evaluation
from agentrl_components.spec.fields.horizon import Horizon
from agentrl_components.spec.fields.model import Model
from agentrl_components.spec.fields.pods import AnnotationKey, LabelKey, LabelValue
from agentrl_components.spec.fields.rollout import Rollout
from agentrl_components.spec.fields.storage import Storage, Tracking
from agentrl_components.spec.fields.update import Update
from agentrl_components.spec.fields.warmstart import WarmStart

GROUP = "agentrl.dev"
VERSION = "v1alpha1"
KIND = "AgentRLRun"


class RunSpec(SpecModel):
    """Desired training run: model, environments, algorithm and schedule."""

    model: Model = Model()
    """The policy model."""
    environments: tuple[Environment, ...] = Field(min_length=1, max_length=16)
    """Environments to train in. Names are unique."""
    algorithm: Algorithm = Algorithm()
    """Algorithm: advantage estimation and the loss."""
    horizon: Horizon
    """Horizon schedule: the turn limit of each phase."""
    warm_start: WarmStart | None = None
    """Imitation learning before reinforcement learning. None: no warm start."""
    rollout: Rollout = Rollout()
    """How episodes are sampled."""
    update: Update = Update()
    """Optimizer settings and batch sizes."""
    evaluation: Evaluation = Evaluation()
    """Evaluation on held-out tasks."""
    compute: Compute = Compute()
    """Processes, devices and pods."""
    storage: Storage = Storage()
    """Object store for checkpoints and trajectories."""
    tracking: Tracking = Tracking()
    """MLflow tracking."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of every random number generator of the run."""
    suspend: bool = False
    """Suspend the run: stop its pods and keep its stored state."""
    active_deadline_seconds: int | None = Field(default=None, ge=1, le=315_360_000)
    """Seconds of activity after which the run is stopped; its checkpoints are kept. None: no
    limit."""
    backoff_limit: int = Field(default=3, ge=0, le=100)
    """On Kubernetes: how often a failed phase is retried before the run counts as failed."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, le=315_360_000)
    """On Kubernetes: seconds after which a finished run is deleted. None: never."""


OTHER_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""The fields of Kubernetes' ObjectMeta that a run does not use."""


class Metadata(SpecModel):
    """The fields of Kubernetes' ObjectMeta that a run uses. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, StringConstraints(pattern=NAME, max_length=52)]
    """Name of the run, and prefix of the names of its objects. Starts with a letter, as the name of
    a Service must."""
    namespace: str | None = Field(
        default=None, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63
    )
    """Kubernetes namespace."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels of the object on a cluster, such as `kueue.x-k8s.io/priority-class`."""
    annotations: dict[AnnotationKey, str] = Field(default_factory=dict)
    """Annotations of the object on a cluster."""


class AgentRLRun(SpecModel):
    """One training run."""

    api_version: Literal["agentrl.dev/v1alpha1"]
    """API version."""
    kind: Literal["AgentRLRun"]
    """Always `AgentRLRun`."""
    metadata: Metadata
    """Name, namespace, labels and annotations."""
    spec: RunSpec
    """Desired training run."""
