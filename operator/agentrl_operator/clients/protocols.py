"""Everything around the operator that it speaks to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentrl_components.spec import AgentRLRun, Storage
from agentrl_components.storage.records import State, Verdict
from agentrl_operator.clients.cluster import Cluster
from agentrl_operator.clients.kfp import Pipelines
from agentrl_operator.clients.mlflow import Tracking
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import KueueAdmission

Bind = Callable[[AgentRLRun, str, Platform, KueueAdmission], Mapping[str, Any]]
"""(run, uid, platform, queued) -> the compiled pipeline of a phase, made for this run."""


class Stores(Protocol):
    """What the operator asks of runs' stores. Every method may raise `StandingError`."""

    async def standing(self, storage: Storage) -> State | None:
        """Where a run is. None: no stage has written yet."""
        ...

    async def verdict(self, storage: Storage, phase: int) -> Verdict | None:
        """What comes after a phase. None: not decided."""
        ...

    async def tracked(self, storage: Storage) -> str | None:
        """The MLflow run that shows it."""
        ...

    async def track(self, storage: Storage, run_id: str) -> None:
        """Name the MLflow run."""
        ...

    async def erase(self, storage: Storage) -> bool:
        """Delete everything a run keeps; whether nothing is left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """All of them."""

    cluster: Cluster
    pipelines: Pipelines
    stores: Stores
    tracking: Tracking
    bind: Bind
