"""Collects episodes from all samplers, and replays those lost to infrastructure.

A lost episode is replayed with the same task, sample and seeds after the others are done, so an
environment that failed for a moment leaves no trace in the results.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.rollout.samplers import Samplers
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Ending, Trajectory

REPLAYS = 3
"""How often lost episodes are replayed."""
PAUSE_S = 1.0
"""Seconds before the first replay; doubled before each further one."""


class Collector:
    """Distributes whole groups over all samplers."""

    def __init__(
        self,
        spec: RunSpec,
        samplers: Samplers,
        instructions: Mapping[str, str],
        pause_s: float = PAUSE_S,
    ) -> None:
        self._spec = spec
        self._samplers = samplers
        self._instructions = instructions
        self._pause_s = pause_s
        self.note: Callable[[str], None] = lambda _: None
        """Called with a message when episodes are replayed."""

    def collect(self, request: CollectRequest, version: int) -> list[Trajectory]:
        """The episodes of `request`, played by policy `version`, ordered by group and sample.
        Episodes that are still lost after all replays are returned as lost."""
        rules = request.rules(self._spec)
        jobs = request.jobs(self._instructions)
        episodes = self._play(jobs, rules, version)
        for replay in range(REPLAYS):
            lost = [i for i, e in enumerate(episodes) if e.ending is Ending.LOST]
            if not lost:
                break
            reason = episodes[lost[-1]].note
            self.note(f"replaying {len(lost)} of {len(jobs)} episodes that were lost: {reason}")
            time.sleep(self._pause_s * 2**replay)
            replayed = self._play([jobs[i] for i in lost], rules, version)
            for i, episode in zip(lost, replayed, strict=True):
                episodes[i] = episode
        return episodes

    def _play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, which are ordered by group and sample, in the same order."""
        groups = sorted({job.group for job in jobs})
        parts = min(self._samplers.size, len(groups))
        part_of = {group: index % parts for index, group in enumerate(groups)}
        shares = [[job for job in jobs if part_of[job.group] == part] for part in range(parts)]
        played = self._samplers.play(shares, rules, version)
        return sorted((e for share in played for e in share), key=lambda e: (e.group, e.sample))


async def replay_lost(
    jobs: Sequence[Job], play: Callable[[Sequence[Job]], Awaitable[list[Trajectory]]]
) -> list[Trajectory]:
    """The trajectories of `jobs`. Those that are lost are replayed as `Collector.collect` does."""
    episodes = await play(jobs)
    for replay in range(REPLAYS):
        lost = [i for i, e in enumerate(episodes) if e.ending is Ending.LOST]
        if not lost:
            break
        await asyncio.sleep(PAUSE_S * 2**replay)
        for i, episode in zip(lost, await play([jobs[i] for i in lost]), strict=True):
            episodes[i] = episode
    return episodes
