"""The manifest itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from agentrl_components.spec.fields.algorithm import Algorithm
from agentrl_components.spec.fields.base import Part
from agentrl_components.spec.fields.compute import Compute
from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.evaluation import Evaluation
from agentrl_components.spec.fields.horizon import Horizon
from agentrl_components.spec.fields.model import Model
from agentrl_components.spec.fields.rollout import Rollout
from agentrl_components.spec.fields.storage import Storage, Tracking
from agentrl_components.spec.fields.update import Update
from agentrl_components.spec.fields.warmstart import WarmStart

GROUP = "agentrl.dev"
VERSION = "v1alpha1"
KIND = "AgentRLRun"


class RunSpec(Part):
    """What to train, in which worlds, how, and for how long."""

    model: Model = Model()
    """The model that learns to act."""
    environments: tuple[Environment, ...] = Field(min_length=1, max_length=16)
    """The worlds. Names are unique."""
    algorithm: Algorithm = Algorithm()
    """How episodes become gradients."""
    horizon: Horizon
    """How many turns an episode may take, phase by phase."""
    warm_start: WarmStart | None = None
    """Imitation before reinforcement learning. None: from scratch."""
    rollout: Rollout = Rollout()
    """How episodes are played."""
    update: Update = Update()
    """How gradients become weights."""
    evaluation: Evaluation = Evaluation()
    """Held-out play."""
    compute: Compute = Compute()
    """What the work runs on."""
    storage: Storage = Storage()
    """Where checkpoints go."""
    tracking: Tracking = Tracking()
    """Where metrics go."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Everything random derives from it."""
    suspend: bool = False
    """Do not work; keep what there is."""
    active_deadline_seconds: int | None = Field(default=None, ge=1, le=315_360_000)
    """Seconds of work after which the run stops, with its checkpoints kept. None: no limit."""
    backoff_limit: int = Field(default=3, ge=0, le=100)
    """On Kubernetes: times that a phase is started anew before the run counts as failed."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, le=315_360_000)
    """On Kubernetes: seconds after which a run that ended is deleted. None: never."""


class Metadata(Part):
    """The part of Kubernetes' object metadata that a run uses; the rest is Kubernetes' own."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=52)]
    """Names everything that belongs to the run; a letter first, as Kubernetes asks of a Service."""
    namespace: str | None = Field(default=None, max_length=63)
    """Kubernetes namespace."""


class AgentRLRun(Part):
    """One run."""

    api_version: Literal["agentrl.dev/v1alpha1"]
    """Version of this contract."""
    kind: Literal["AgentRLRun"]
    """Always AgentRLRun."""
    metadata: Metadata
    """Name and namespace."""
    spec: RunSpec
    """What to do."""
