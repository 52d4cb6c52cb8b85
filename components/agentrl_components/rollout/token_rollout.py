"""Episodes sampled token by token with an engine: the ones that can be trained on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.engines.engine import Engine
from agentrl_components.rollout import episode
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.session_pool import SessionPool
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.world import Session, World


class TokenRollout:
    """Plays jobs with an engine, on one event loop."""

    def __init__(
        self, worlds: Mapping[str, World], dialogue: Dialogue, retries: int, concurrency: int
    ) -> None:
        self._sessions = SessionPool(worlds, retries, concurrency)
        self._dialogue = dialogue
        self._numbers = itertools.count(1)

    async def play(self, jobs: Sequence[Job], rules: Rules, engine: Engine) -> list[Trajectory]:
        """The trajectories of `jobs`, in their order."""

        async def play_episode(job: Job, session: Session) -> Trajectory:
            number = next(self._numbers)
            return await episode.play(job, rules, number, session, engine, self._dialogue)

        return await self._sessions.play(jobs, rules, play_episode)

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()
