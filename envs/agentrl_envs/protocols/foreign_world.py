"""A world whose sessions another project's server plays.

A `Connection` speaks one protocol. `ForeignWorld` gives its sessions the contract of `world`: tasks
are checked here, rewards are the differences of a score in [0, 1], an ended episode takes no
further action, and a session that failed is lost until its next reset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.errors import SessionError, TaskError
from agentrl_envs.protocols.numbered_tasks import NumberedTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answers to one action."""

    observation: Observation
    score: float
    """The score of the episode so far; it is clipped to [0, 1]."""
    raw_score: float
    """The score in the server's own unit."""
    terminated: bool
    truncated: bool = False
    wellformed: bool = True
    success: bool = False


class Connection(Protocol):
    """One session of a server. Every call may raise `SessionError` and `ContractError`."""

    async def reset(self, number: int) -> Observation:
        """Set up the task with this number."""
        ...

    async def step(self, text: str) -> Answer:
        """Send the agent's reply."""
        ...

    async def close(self) -> None:
        """Release the session, as far as the server can be reached. Does not raise."""
        ...


class ForeignSession:
    """One session."""

    def __init__(self, tasks: NumberedTasks, connection: Connection) -> None:
        self._tasks = tasks
        self._connection = connection
        self._checker = AnswerChecker(tasks.name)
        self._playing = False
        self._score = 0.0

    async def reset(self, task: Task) -> Observation:
        number = self._tasks.number(task)
        self._playing, self._score = False, 0.0
        observation = self._checker.reset(await self._connection.reset(number), task)
        self._playing = True
        return observation

    async def step(self, text: str) -> Step:
        if not self._playing:
            raise SessionError(
                f"{self._tasks.name}: the episode has ended or the session was lost; reset it"
            )
        self._playing = False
        answer = await self._connection.step(text)
        self._playing = not (answer.terminated or answer.truncated)
        score = min(max(answer.score, 0.0), 1.0)
        reward, self._score = score - self._score, score
        return self._checker.step(
            Step(
                observation=answer.observation,
                reward=reward,
                terminated=answer.terminated,
                truncated=answer.truncated and not answer.terminated,
                wellformed=answer.wellformed,
                success=answer.success,
                raw_score=answer.raw_score,
            )
        )

    async def close(self) -> None:
        self._playing = False
        await self._connection.close()


class ForeignWorld:
    """The tasks and sessions of one server."""

    waiting = 0  # a server that is full refuses
    shared = False

    def __init__(
        self,
        tasks: NumberedTasks,
        instructions: str,
        connect: Callable[[], Connection],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """`connect` makes the connection of a session; `close` closes what they share."""
        self._tasks = tasks
        self._instructions = instructions
        self._connect = connect
        self._close = close

    @property
    def name(self) -> str:
        return self._tasks.name

    def instructions(self) -> str:
        return self._instructions

    def vocabulary(self) -> tuple[str, ...] | None:
        return None

    def size(self, split: Split) -> int | None:
        return self._tasks.size(split)

    async def task(self, split: Split, index: int) -> Task:
        return self._tasks.task(split, index)

    def session(self) -> ForeignSession:
        return ForeignSession(self._tasks, self._connect())

    @property
    def relabels(self) -> bool:
        return False

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        raise TaskError(f"{self.name}: its protocol does not support relabeling")

    async def close(self) -> None:
        await self._close()
