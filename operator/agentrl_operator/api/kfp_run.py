"""Runs of Kubeflow Pipelines: as its v2beta1 API shows them, and as they are submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
"""States of a run that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KfpRun:
    """A KFP run."""

    state: str
    """RuntimeState of the API: PENDING, RUNNING, SUCCEEDED, FAILED, CANCELING, CANCELED ..."""
    error: str = ""
    """Error message of the API; empty if there is none."""

    @property
    def alive(self) -> bool:
        """Whether the run may still be working, which includes every unknown state."""
        return self.state not in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether all tasks of the run succeeded."""
        return self.state == "SUCCEEDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A KFP run to start."""

    run_id: str
    name: str
    """Display name in the KFP UI."""
    experiment: str
    """Name of the KFP experiment, which is created if it does not exist."""
    namespace: str
    """Namespace of its pods."""
    pipeline_spec: Mapping[str, Any]
    """The compiled pipeline; with platform options, `{pipeline_spec, platform_spec}`."""
    parameters: Mapping[str, Any]
    """Values of the pipeline's parameters."""
    service_account: str | None = None
    """Service account of its pods; None: the one that KFP is configured with."""
    first: bool = False
    """Nothing can have been started for this AgentRLRun before, so KFP need not be asked."""
    tracked: bool = False
    """The stages log to MLflow themselves: a backend that has an MLflow plugin (2.17) must not
    create a run for it."""
