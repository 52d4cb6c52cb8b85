"""Plays many episodes concurrently on a pool of environment sessions.

Each episode is a coroutine: while one waits for its environment, others are sampled. A failed
session is replaced and its episode replayed with the same seeds. An episode that fails too often is
recorded as lost, which is not a score of 0.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentrl_components.errors import EngineError
from agentrl_components.rollout.episode import Job, Rules, lost_trajectory
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.errors import SessionError
from agentrl_envs.world import Session, World

PlayEpisode = Callable[[Job, Session], Awaitable[Trajectory]]
"""Plays one episode in a session."""


class SessionPool:
    """Plays jobs in the environments of a run and keeps sessions open between episodes."""

    def __init__(self, worlds: Mapping[str, World], retries: int, concurrency: int) -> None:
        self._worlds = worlds
        self._retries = retries
        self._gate = asyncio.Semaphore(concurrency)
        self._idle: dict[str, list[Session]] = {name: [] for name in worlds}
        self._open: set[Session] = set()
        """All open sessions: idle, in use, or left behind by an episode that was cancelled."""
        self._queued: Counter[str] = Counter()
        """Number of episodes that have not begun, by environment."""

    async def play(
        self, jobs: Sequence[Job], rules: Rules, play_episode: PlayEpisode
    ) -> list[Trajectory]:
        """The trajectories of `jobs`, in their order, each played by `play_episode`."""

        async def limited(job: Job) -> Trajectory:
            self._queued[job.environment] += 1
            try:
                await self._gate.acquire()
            finally:
                self._queued[job.environment] -= 1
            try:
                return await self._play_with_retries(job, rules, play_episode)
            finally:
                self._gate.release()

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(limited(job)) for job in jobs]
        except ExceptionGroup as failed:
            # Episodes fail for the same cause (a broken contract, token drift): report one.
            raise failed.exceptions[0] from None
        if not rules.purpose.startswith("train"):
            await self._close_idle()  # frees server capacity that the next iteration does not need
        return [task.result() for task in tasks]

    async def close(self) -> None:
        """Close every session."""
        sessions, self._open = list(self._open), set()
        await asyncio.gather(*(session.close() for session in sessions))
        for idle in self._idle.values():
            idle.clear()

    async def _close_idle(self) -> None:
        """Close the sessions that no episode uses."""
        sessions = [session for idle in self._idle.values() for session in idle]
        for idle in self._idle.values():
            idle.clear()
        self._open.difference_update(sessions)
        await asyncio.gather(*(session.close() for session in sessions))

    async def _drop(self, session: Session) -> None:
        """Close a session that an episode used."""
        self._open.discard(session)
        await session.close()

    async def _play_with_retries(
        self, job: Job, rules: Rules, play_episode: PlayEpisode
    ) -> Trajectory:
        """Play until it succeeds or the retries are used up."""
        reason = ""
        world, idle = self._worlds[job.environment], self._idle[job.environment]
        for _ in range(self._retries + 1):
            # What broke a kept session, such as a restart of its server, has often broken the
            # others too. In a shared world they can be reset all the same, and hold places that a
            # new session would wait for.
            kept = idle and (world.shared or not reason)
            session = idle.pop() if kept else world.session()
            self._open.add(session)
            try:
                trajectory = await play_episode(job, session)
            except (SessionError, EngineError) as error:
                reason = f"{type(error).__name__}: {error}"
                await self._drop(session)
                continue
            except asyncio.CancelledError:
                await self._drop(session)
                raise
            if self._is_wanted_elsewhere(job.environment):
                await self._drop(session)
            else:
                idle.append(session)
            return trajectory
        return lost_trajectory(job, rules, f"{reason} (tried {self._retries + 1} times)")

    def _is_wanted_elsewhere(self, environment: str) -> bool:
        """Whether a session that has become free would be of no use here, but may be to others: to
        resets that wait for a server with room, of this pool or of another one."""
        world = self._worlds[environment]
        wanted = self._queued[environment] > len(self._idle[environment])
        return world.waiting > 0 or (world.shared and not wanted)
