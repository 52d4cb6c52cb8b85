"""Sessions as a rollout sees them: asynchronous, wherever the world runs.

A `World` deals tasks and opens sessions. `LocalWorld` wraps a `TaskSet` of this process and calls
it directly, with no thread between: right for worlds whose steps take microseconds to a
millisecond. `client.RemoteTaskSet` is the same for a world behind HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentrl_envs.answer_check import AnswerChecker
from agentrl_envs.env import Environment, Observation, Relabels, Split, Step, Task, TaskSet
from agentrl_envs.errors import TaskError


@runtime_checkable
class Session(Protocol):
    """One agent's place in a world. Episode after episode through `reset`.

    Every call may raise `SessionError` (the episode is lost, not failed) and `ContractError` (the
    world answered what the contract does not allow); `reset` also `TaskError` and
    `CapacityError`."""

    async def reset(self, task: Task) -> Observation:
        """Set a task up."""
        ...

    async def step(self, text: str) -> Step:
        """Take the agent's reply, whole."""
        ...

    async def close(self) -> None:
        """Give the place back. May be called twice; never raises for a session that is gone."""
        ...


@runtime_checkable
class World(Protocol):
    """A supply of tasks and of sessions to play them in."""

    @property
    def name(self) -> str: ...

    def instructions(self) -> str: ...

    def vocabulary(self) -> tuple[str, ...] | None: ...

    def size(self, split: Split) -> int | None: ...

    async def task(self, split: Split, index: int) -> Task: ...

    def session(self) -> Session:
        """A new session. Costs nothing until its first `reset`."""
        ...

    @property
    def relabels(self) -> bool:
        """Whether goals can be rewritten here."""
        ...

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        """For each (first observation, goal) that observation with that goal. Raises `TaskError`
        where goals cannot be rewritten, or a text is not a first observation."""
        ...

    async def close(self) -> None:
        """Give back what the world holds here."""
        ...


class LocalSession:
    """An environment of this process."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._checker = AnswerChecker()

    async def reset(self, task: Task) -> Observation:
        return self._checker.reset(self._environment.reset(task))

    async def step(self, text: str) -> Step:
        return self._checker.step(self._environment.step(text))

    async def close(self) -> None:
        self._environment.close()


class LocalWorld:
    """A task set of this process."""

    def __init__(self, task_set: TaskSet) -> None:
        self.task_set = task_set

    @property
    def name(self) -> str:
        return self.task_set.name

    def instructions(self) -> str:
        return self.task_set.instructions()

    def vocabulary(self) -> tuple[str, ...] | None:
        return self.task_set.vocabulary()

    def size(self, split: Split) -> int | None:
        return self.task_set.size(split)

    async def task(self, split: Split, index: int) -> Task:
        return self.task_set.task(split, index)

    def session(self) -> LocalSession:
        return LocalSession(self.task_set.environment())

    @property
    def relabels(self) -> bool:
        return isinstance(self.task_set, Relabels)

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        if not isinstance(self.task_set, Relabels):
            raise TaskError(f"{self.name}: goals cannot be rewritten in this environment")
        return [self.task_set.relabel(observation, goal) for observation, goal in openings]

    async def close(self) -> None:
        """Nothing is held: sessions are closed by who opened them."""
