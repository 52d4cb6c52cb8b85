"""Fault injection for tests: sessions that are lost and calls that are delayed, from a seed.

Part of the public API, for tests of retries and latency. `FaultyTaskSet` wraps a task set and
blocks during a delay, as a slow environment in a server does; `FaultyWorld` wraps a world and
delays without blocking, as a slow server does. Every session has its own random stream, derived
from the seed and the number of the session, so its faults do not depend on other sessions.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from agentrl_envs.env import Environment, Observation, Split, Step, Task, TaskSet
from agentrl_envs.errors import SessionError
from agentrl_envs.world import Session, World


class Faults(BaseModel):
    """Which faults occur, and how often."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = 0
    lose_reset: float = Field(default=0.0, ge=0, le=1)
    """Probability that a reset raises `SessionError`."""
    lose_step: float = Field(default=0.0, ge=0, le=1)
    """Probability that a step raises `SessionError`; the session stays lost until reset."""
    latency_s: float = Field(default=0.0, ge=0, le=60)
    """Mean delay of a reset or step, in seconds."""
    jitter: float = Field(default=0.0, ge=0, le=1)
    """Each delay is uniform in latency_s * (1 ± jitter)."""


class _FaultStream:
    """The faults of one session, call by call."""

    def __init__(self, faults: Faults, session: int) -> None:
        self._faults = faults
        self._draws = random.Random(f"{faults.seed}/{session}")
        self._lost = False

    def delay_s(self) -> float:
        spread = self._draws.uniform(-self._faults.jitter, self._faults.jitter)
        return self._faults.latency_s * (1 + spread)

    def reset(self) -> None:
        self._lost = self._draws.random() < self._faults.lose_reset
        if self._lost:
            raise SessionError("the session was lost while its task was set up, on purpose")

    def step(self) -> None:
        self._lost = self._lost or self._draws.random() < self._faults.lose_step
        if self._lost:
            raise SessionError("the session was lost in a step, on purpose")


class FaultyTaskSet:
    """A task set whose sessions have faults. The tasks are those of the wrapped task set."""

    def __init__(self, task_set: TaskSet, faults: Faults) -> None:
        self.name = task_set.name
        self._task_set = task_set
        self._faults = faults
        self._sessions = 0

    def instructions(self) -> str:
        return self._task_set.instructions()

    def size(self, split: Split) -> int | None:
        return self._task_set.size(split)

    def task(self, split: Split, index: int) -> Task:
        return self._task_set.task(split, index)

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._task_set.vocabulary()

    def environment(self) -> FaultyEnvironment:
        self._sessions += 1
        return FaultyEnvironment(self._task_set.environment(), self._faults, self._sessions)


class FaultyEnvironment:
    """An environment with faults and blocking delays. A lost session is usable after a reset."""

    def __init__(self, environment: Environment, faults: Faults, session: int = 1) -> None:
        self._environment = environment
        self._stream = _FaultStream(faults, session)

    def reset(self, task: Task) -> Observation:
        time.sleep(self._stream.delay_s())
        self._stream.reset()
        return self._environment.reset(task)

    def step(self, action: str) -> Step:
        time.sleep(self._stream.delay_s())
        self._stream.step()
        return self._environment.step(action)

    def close(self) -> None:
        self._environment.close()


class FaultyWorld:
    """A world whose sessions have faults. The tasks are those of the wrapped world."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world = world
        self._faults = faults
        self._sessions = 0

    @property
    def name(self) -> str:
        return self._world.name

    def instructions(self) -> str:
        return self._world.instructions()

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._world.vocabulary()

    def size(self, split: Split) -> int | None:
        return self._world.size(split)

    async def task(self, split: Split, index: int) -> Task:
        return await self._world.task(split, index)

    @property
    def waiting(self) -> int:
        return self._world.waiting

    @property
    def shared(self) -> bool:
        return self._world.shared

    def session(self) -> FaultySession:
        self._sessions += 1
        return FaultySession(self._world.session(), self._faults, self._sessions)

    @property
    def relabels(self) -> bool:
        return self._world.relabels

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        return await self._world.relabel(openings)

    async def close(self) -> None:
        await self._world.close()


class FaultySession:
    """A session with faults and non-blocking delays."""

    def __init__(self, session: Session, faults: Faults, number: int = 1) -> None:
        self._session = session
        self._stream = _FaultStream(faults, number)

    async def reset(self, task: Task) -> Observation:
        await asyncio.sleep(self._stream.delay_s())
        self._stream.reset()
        return await self._session.reset(task)

    async def step(self, text: str) -> Step:
        await asyncio.sleep(self._stream.delay_s())
        self._stream.step()
        return await self._session.step(text)

    async def close(self) -> None:
        await self._session.close()
