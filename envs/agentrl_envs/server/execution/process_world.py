"""A task set whose environments run in worker processes, for clients in the same process.

For environments that compute: beside a sampler they would take its interpreter lock.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.calls.watch import WATCH, CallWatch
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.errors import SessionError
from agentrl_envs.server.execution.executor import Executor, TaskSetFactory
from agentrl_envs.server.execution.process_executor import ProcessExecutor
from agentrl_envs.world import LocalWorld, Session

T = TypeVar("T")


class ProcessSession:
    """A session in one of the processes. If that process dies or is ended, its sessions raise
    `SessionError`, and their next `reset` is in another process."""

    def __init__(self, executor: Executor, name: str) -> None:
        """`name` is that of the environment in errors of its code."""
        self._executor = executor
        self._name = name
        self._task: Task | None = None
        self._id = uuid4().hex
        self._checker = AnswerChecker(name)

    async def reset(self, task: Task) -> Observation:
        self._task = task
        observation = await self._answer(self._executor.reset(self._id, task))
        return self._checker.reset(observation, task)

    async def step(self, text: str) -> Step:
        return self._checker.step(await self._answer(self._executor.step(self._id, text)))

    async def close(self) -> None:
        # Not `discard`: it kills the process if a call of this session is under way, and with it
        # the sessions of others. `release` waits for the call.
        await self._executor.release(self._id)

    async def _answer(self, call: Coroutine[Any, Any, T]) -> T:
        """Await a call of the executor. An environment that loses its session is not reused."""
        try:
            with code_errors(self._name, self._task):
                return await call
        except SessionError:
            self._executor.discard(self._id)
            raise


class ProcessWorld(LocalWorld):
    """Sessions in `workers` processes, which start with the first session. Tasks are dealt in this
    process. A process in which a call takes longer than `timeout_s` is ended."""

    def __init__(
        self,
        factory: TaskSetFactory,
        *,
        workers: int,
        timeout_s: float | None = None,
        watch: CallWatch = WATCH,
    ) -> None:
        super().__init__(factory(), watch=watch)
        self._executor = ProcessExecutor(
            factory, workers=workers, name=self.name, timeout_s=timeout_s, watch=watch
        )

    def session(self) -> Session:
        return ProcessSession(self._executor, self.name)

    async def close(self) -> None:
        """End the processes."""
        await self._executor.close()
