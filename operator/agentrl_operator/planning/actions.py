"""What the operator can do about a run. Each may be done twice and counts once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from agentrl_operator.manifests.workload import Priority
from agentrl_operator.manifests.workload_status import News
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Put the finalizer on, so that deletion waits for the clean-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Take the finalizer off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyToken:
    """Make the Secret with the token of the run's environment servers, where there is none. Servers
    that know another token are then removed, to be made anew."""

    servers: tuple[str, ...] = ()
    """The Deployments there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEnvironment:
    """Make an environment's Deployment and Service, or bring them up to date."""

    environment: str
    nodes: PodSetInfo = UNCONSTRAINED
    """Where its servers may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveServers:
    """Delete a Deployment: servers cost money while nothing is played."""

    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTracker:
    """Make the MLflow run and name it in the store, where there is none. Best effort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseTracker:
    """End the MLflow run. Best effort."""

    run_id: str
    status: Literal["FINISHED", "FAILED", "KILLED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start the KFP run of an attempt at a phase, unless there is one."""

    run_id: str
    phase: int
    attempt: int
    first: bool = False
    """Nothing can have been started for the run before: it was not even held."""
    nodes: Mapping[str, PodSetInfo] = field(default_factory=lambda: MappingProxyType({}))
    """Where Kueue has its pods run, by pod set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateRun:
    """Ask KFP to stop a run."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkflow:
    """Delete a KFP run's Workflow and with it its pods, past a KFP that does not answer."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAdmission:
    """Make the Workload that asks Kueue for what the run needs, where there is none."""

    priority: Priority | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prioritize:
    """Give the run's Workload another priority, or none."""

    priority: Priority | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellKueue:
    """Tell Kueue that the run is at work, has stopped after an eviction, or is over; the last two
    give the quota back."""

    news: News
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveWorkload:
    """Delete the run's Workload, and with it give the quota back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRuns:
    """Delete the KFP runs of a run, and its KFP experiment. Best effort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseStore:
    """Delete everything under the run's prefix of the object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResource:
    """Delete the AgentRLRun itself; its time is over."""


Action = (
    Hold
    | Release
    | ApplyToken
    | ApplyEnvironment
    | RemoveServers
    | OpenTracker
    | CloseTracker
    | StartRun
    | TerminateRun
    | RemoveWorkflow
    | RequestAdmission
    | Prioritize
    | TellKueue
    | RemoveWorkload
    | ForgetRuns
    | EraseStore
    | DeleteResource
)
