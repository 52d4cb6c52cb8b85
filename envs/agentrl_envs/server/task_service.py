"""Task service: calls a task set from a thread, so that it never blocks the event loop."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agentrl_envs.env import Relabels, Split, Task, TaskSet
from agentrl_envs.errors import TaskError
from agentrl_envs.protocol import MAX_STEPS, EnvironmentResponse, Relabel

HASHED_TASKS = 64
"""Number of held-out tasks, from index 0, that `tasks_hash` covers."""


def tasks_hash(ids: tuple[str, ...]) -> str:
    """Hash of a list of task ids: equal where two servers deal the same tasks."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]


class TaskService:
    """Deals tasks, one call at a time: a task set need not be thread-safe."""

    def __init__(self, task_set: TaskSet) -> None:
        self._task_set = task_set
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tasks")
        self._hash: str | None = None

    @property
    def ready(self) -> bool:
        """The first tasks have been dealt."""
        return self._hash is not None

    async def prepare(self) -> str:
        """Deal the tasks that `tasks_hash` covers, once; returns their hash."""
        if self._hash is None:
            tasks = await self.tasks("heldout", 0, HASHED_TASKS)
            self._hash = tasks_hash(tuple(task.id for task in tasks))
        return self._hash

    async def tasks(self, split: Split, start: int, count: int) -> tuple[Task, ...]:
        """Tasks `start` to `start + count - 1` of a split."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self._deal, split, start, count))

    async def relabel(self, requested: tuple[Relabel, ...]) -> tuple[str, ...]:
        """The observations with their new goals. Raises `TaskError` if the environment has no
        relabeling, or an observation is not the first one of an episode."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self._relabel, requested))

    async def description(
        self, *, capacity: int, ttl_s: float, version: str
    ) -> EnvironmentResponse:
        """The description of the served environment."""
        return EnvironmentResponse(
            name=self._task_set.name,
            instructions=self._task_set.instructions(),
            vocabulary=self._task_set.vocabulary(),
            train=self._task_set.size("train"),
            heldout=self._task_set.size("heldout"),
            capacity=capacity,
            ttl_s=ttl_s,
            version=version,
            tasks_hash=await self.prepare(),
            relabels=isinstance(self._task_set, Relabels),
            most_steps=MAX_STEPS,
        )

    def close(self) -> None:
        """Stop dealing tasks."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _deal(self, split: Split, start: int, count: int) -> tuple[Task, ...]:
        return tuple(self._task_set.task(split, start + offset) for offset in range(count))

    def _relabel(self, requested: tuple[Relabel, ...]) -> tuple[str, ...]:
        if not isinstance(self._task_set, Relabels):
            raise TaskError(f"{self._task_set.name}: this environment does not support relabeling")
        texts = []
        for number, each in enumerate(requested):
            try:
                text = self._task_set.relabel(each.observation, each.goal)
            except TaskError as error:
                raise TaskError(f"openings.{number}: {error}") from None
            texts.append(text)
        return tuple(texts)
