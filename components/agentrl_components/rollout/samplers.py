"""What the rollout needs from the processes that sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory


class Samplers(Protocol):
    """A set of samplers that play episodes side by side.

    Implemented by `workers.samplers`: each worker process holds an engine and the environments. An
    engine whose weights are not those of the requested version loads them before it plays."""

    size: int
    """Samplers that play at the same time."""

    def play(
        self, shares: Sequence[Sequence[Job]], rules: Rules, version: int
    ) -> list[list[Trajectory]]:
        """The trajectories of each share of jobs, in the order of `shares`.

        `version` is the policy version, `RANDOM_POLICY` for the random policy. The result of a
        share depends on the share alone, not on which sampler plays it. Episodes that were lost to
        infrastructure are returned as lost."""
        ...
