"""What the operator sees of a run's surroundings at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from agentrl_components.storage.records import State, Verdict
from agentrl_operator.manifests.workload import Priority, Workload
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """An environment's Deployment."""

    manifest: str
    """Hash of the manifest that it was made from."""
    ready: int
    """Servers that answer."""
    wanted: int
    """Servers that there should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KfpRun:
    """A KFP run."""

    state: str
    """As the API says: PENDING, RUNNING, SUCCEEDED, FAILED, CANCELING, CANCELED ..."""
    error: str = ""
    """What the API says went wrong."""

    @property
    def alive(self) -> bool:
        """Whether it may still work. A state that is not known counts as alive."""
        return self.state not in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether every task of it did."""
        return self.state == "SUCCEEDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A neighbour did not answer."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All of it, for the phase that the status is at."""

    attempt: int = 0
    """The newest attempt at the phase that KFP knows, and at least the status's."""
    kfp: KfpRun | Unknown | None = None
    """That attempt's KFP run. None: KFP has none."""
    others: Mapping[str, KfpRun] = field(default_factory=lambda: MappingProxyType({}))
    """When it is deleted: every other run of its KFP experiment, by id. While KFP does not answer:
    those of which a pod works."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """lost: KFP says that the run works, but its Workflow has been gone for a while."""
    pods: int | None = None
    """Of these KFP runs, that have not ended. None: not looked."""
    trouble: str = ""
    """What keeps its pods from working, or ended them."""
    servers: Mapping[str, Servers] = field(default_factory=lambda: MappingProxyType({}))
    """By name of the Deployment."""
    standing: State | Unknown | None = None
    """How far the run has come. None: nothing is written yet, or not looked."""
    verdict: Verdict | Unknown | None = None
    """What comes after the phase. None: not decided, or not looked."""
    workload: Workload | None = None
    """What Kueue says of the run as a whole. None: there is none, or not looked."""
    nodes: Mapping[str, PodSetInfo] | Unknown = field(default_factory=lambda: MappingProxyType({}))
    """That Kueue chose for the run's pods, by pod set."""
    priority: Priority | Unknown | None = None
    """That the Workload should have and has not. Unknown: there is no such class."""
    mlflow_run: str | None = None
    """The MLflow run that the run's store names."""

    @property
    def done(self) -> bool:
        """Whether KFP says that the attempt did all its work."""
        return isinstance(self.kfp, KfpRun) and self.kfp.succeeded

    @property
    def lost(self) -> bool:
        """Whether KFP alone says that the attempt works: its Workflow is lost."""
        return isinstance(self.kfp, KfpRun) and self.kfp.alive and self.workflow == "lost"

    @property
    def silent(self) -> list[str]:
        """Who did not answer, as the metrics name them."""
        asked = {"Kfp": (self.kfp,), "Standing": (self.standing, self.verdict)}
        return [
            name
            for name, answers in asked.items()
            if any(isinstance(answer, Unknown) for answer in answers)
        ]
