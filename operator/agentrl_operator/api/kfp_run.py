"""A run of Kubeflow Pipelines, as its v2beta1 API shows it."""

from __future__ import annotations

from dataclasses import dataclass

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
