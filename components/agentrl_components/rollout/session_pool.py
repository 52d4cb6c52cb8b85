"""Many episodes at once, none waiting for another.

Each episode is a coroutine: while one waits for its world, others are sampled. A session that is
lost is replaced and the episode played again with the same seeds; one that is lost too often is
recorded as lost, which is not a score of 0.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentrl_components.dialogue.protocol import Dialogue
from agentrl_components.engines.engine import Engine
from agentrl_components.errors import EngineError
from agentrl_components.rollout import episode
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.errors import SessionError
from agentrl_envs.world import Session, World


class Sessions:
    """Plays jobs in the worlds of a run, keeping sessions open from one episode to the next."""

    def __init__(self, worlds: Mapping[str, World], retries: int, concurrency: int) -> None:
        self._worlds = worlds
        self._retries = retries
        self._concurrency = concurrency
        self._idle: dict[str, list[Session]] = {name: [] for name in worlds}
        self._open: set[Session] = set()
        """Idle, at work, or left behind by an episode that was broken off."""

    async def play(
        self,
        jobs: Sequence[Job],
        rules: Rules,
        one: Callable[[Job, Session], Awaitable[Trajectory]],
    ) -> list[Trajectory]:
        """The trajectories of `jobs`, in their order, each as `one` plays it."""
        gate = asyncio.Semaphore(self._concurrency)

        async def gated(job: Job) -> Trajectory:
            async with gate:
                return await self._persistently(job, rules, one)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(gated(job)) for job in jobs]
        except ExceptionGroup as failed:
            # Episodes fail alike: a broken contract, ids that drifted. One of them says it all.
            raise failed.exceptions[0] from None
        if not rules.purpose.startswith("train"):
            await self.close()  # places that the next iteration does not need are given back
        return [task.result() for task in tasks]

    async def close(self) -> None:
        """Close every session."""
        sessions, self._open = list(self._open), set()
        await asyncio.gather(*(session.close() for session in sessions))
        for idle in self._idle.values():
            idle.clear()

    async def _persistently(
        self, job: Job, rules: Rules, one: Callable[[Job, Session], Awaitable[Trajectory]]
    ) -> Trajectory:
        """Play until it works or the retries are used up."""
        reason = ""
        for _ in range(self._retries + 1):
            idle = self._idle[job.environment]
            session = idle.pop() if idle else self._worlds[job.environment].session()
            self._open.add(session)
            try:
                played = await one(job, session)
            except (SessionError, EngineError) as error:
                reason = f"{type(error).__name__}: {error}"
                self._open.discard(session)
                await session.close()
                continue
            idle.append(session)
            return played
        return episode.lost(job, rules, f"{reason} (tried {self._retries + 1} times)")


class Rollout:
    """Episodes of an engine's tokens."""

    def __init__(
        self, worlds: Mapping[str, World], dialogue: Dialogue, retries: int, concurrency: int
    ) -> None:
        self._sessions = Sessions(worlds, retries, concurrency)
        self._dialogue = dialogue
        self._numbers = itertools.count(1)

    async def play(self, jobs: Sequence[Job], rules: Rules, engine: Engine) -> list[Trajectory]:
        """The trajectories of `jobs`, in their order."""

        async def one(job: Job, session: Session) -> Trajectory:
            number = next(self._numbers)
            return await episode.play(job, rules, number, session, engine, self._dialogue)

        return await self._sessions.play(jobs, rules, one)

    async def close(self) -> None:
        """Close every session."""
        await self._sessions.close()
