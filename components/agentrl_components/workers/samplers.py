"""`rollout.samplers.Samplers` on a pool of workers."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.pool import WorkerPool
from agentrl_components.workers.worker import Worker


class PoolSamplers:
    """Every worker of a pool as a sampler. The workers share the trainers' weights in memory, so a
    new version costs no copy; a worker whose engine holds its own copy (vLLM) reloads it."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.size = pool.size

    def play(
        self, shares: Sequence[Sequence[Job]], rules: Rules, version: int
    ) -> list[list[Trajectory]]:
        """As `Samplers.play`."""
        return self._pool.map(Worker.play, [(share, rules, version) for share in shares])
