"""What a decision about a run rests on, beside the status."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.planning.observation import Observed
from agentrl_pipelines.platform.config import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A run at one moment. It stands still while `reconcile` decides; the status does not."""

    resource: Resource
    observed: Observed
    platform: Platform
    now: datetime

    def run_id(self, status: Status) -> str:
        """The id of the KFP run for the attempt that the status is at."""
        return self.resource.run_id(status.phase_index, status.attempt)
