"""Environment of the comparison: accepts any action, waits, and answers with a fixed sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.loop_thread import CallersLoop
from agentrl_components.workers.pool import WorkerPool
from agentrl_components.workers.worker import Worker
from agentrl_envs.env import Observation, Split, Step, Task, content_id
from agentrl_envs.errors import TaskError

NAME = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Size of one rollout phase."""

    rollouts: int
    group: int
    turns: int
    turn_tokens: int
    latency_ms: float
    """Duration of one environment step in milliseconds."""

    def rules(self) -> Rules:
        """The rules of its episodes."""
        return Rules(
            max_turns=self.turns,
            context=4096,
            max_tokens_per_turn=self.turn_tokens,
            temperature=1.0,
            top_p=1.0,
            admissible=False,
            seed=0,
            purpose="benchmark",
        )


class RoomSession:
    """Session of one agent. Its latency does not block other sessions."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._steps = 0

    async def reset(self, task: Task) -> Observation:
        self._steps = 0
        return first_observation(task)

    async def step(self, text: str) -> Step:
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        self._steps += 1
        return arrival(self._steps, raw_score=float(text.count("g")))

    async def close(self) -> None:
        """Nothing is held."""


class RoomWorld:
    """World that opens sessions with a fixed latency."""

    name = NAME
    waiting = 0
    shared = False
    relabels = False

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...] | None:
        return None

    def size(self, split: Split) -> int | None:
        del split
        return None

    async def task(self, split: Split, index: int) -> Task:
        del split
        return task(index)

    def session(self) -> RoomSession:
        return RoomSession(self._latency_s)

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        raise TaskError("relabeling is not supported")

    async def close(self) -> None:
        """Nothing is held."""


def task(number: int) -> Task:
    """Task of the group with this number."""
    return Task(id=content_id(NAME, number), category=NAME, payload={"number": number})


def first_observation(task: Task) -> Observation:
    """What an agent sees at the start of a task."""
    return Observation(text=f"go north {task.payload['number']}You are in room 0.")


def arrival(room: int, *, raw_score: float = 0.0) -> Step:
    """The answer to an action that leads into a room."""
    return Step(
        observation=Observation(text=f"You are in room {room}. There is a key here."),
        reward=0.0,
        terminated=False,
        truncated=False,
        wellformed=True,
        success=False,
        raw_score=raw_score,
    )


def jobs(load: Load, iteration: int) -> list[Job]:
    """Episodes of a phase, ordered by group."""
    return [
        Job(
            environment=NAME,
            instructions="",
            task=task(group),
            group=group,
            sample=sample,
            iteration=iteration,
        )
        for group in range(load.rollouts // load.group)
        for sample in range(load.group)
    ]


def play(worker: Worker, some: list[Job], rules: Rules, latency_ms: float) -> list[Trajectory]:
    """Play one worker's share of a phase with AgentRL's rollout and torch engine."""
    worlds = {NAME: RoomWorld(latency_ms / 1e3)}
    rollout = TokenRollout(worlds, worker.dialogue, worker.spec.rollout.retries, len(some))
    engine = worker.player.engine
    engine.use_as(0)
    with closing(CallersLoop()) as loop:
        return loop.run(rollout.play(some, rules, CheckedEngine(engine)))


def play_on(pool: WorkerPool, load: Load, iteration: int) -> list[Trajectory]:
    """Play a phase on all workers of a pool; the episodes of a group are played by one worker."""
    every = jobs(load, iteration)
    parts = [[job for job in every if job.group % pool.size == part] for part in range(pool.size)]
    played = pool.map(play, [(part, load.rules(), load.latency_ms) for part in parts])
    return [episode for some in played for episode in some]
