"""Task service: calls a task set from a thread, so that it never blocks the event loop.

A task set may take long to find a task with a high index (BabyAI scans all seeds up to it). The
service therefore works in slices of about `SLICE_S`: it approaches a high index in steps whose size
adapts to how long they take, and between two slices serves other requests. A request that is
cancelled, or exceeds its time limit, ends with its current slice.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agentrl_envs.calls.thread_pool import ThreadPool
from agentrl_envs.env import Numbered, Relabels, Split, Task, TaskSet
from agentrl_envs.errors import SessionError, TaskError, WorldError
from agentrl_envs.protocol import MAX_STEPS, EnvironmentResponse, Relabel

HASHED_TASKS = 64
"""Number of held-out tasks, from index 0, that `tasks_hash` covers."""

SLICE_S = 0.1
"""Seconds for which one request may occupy the task set before others are served."""

FIRST_STRIDE = 67
"""Indices of the first slice towards a high index."""

MAX_PRIME = 1 << 20
"""Strides up to this one are prime."""

RETRY_S = 10.0
"""Seconds between two attempts to deal the first tasks."""

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def tasks_hash(ids: tuple[str, ...]) -> str:
    """Hash of a list of task ids: equal where two servers deal the same tasks."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]


def _stride(least: int) -> int:
    """A stride of at least `least`: a prime, so that the indices visited fall on all levels of a
    task set that deals its levels in turn, and each of them is scanned evenly."""
    if least > MAX_PRIME:
        return least
    while any(least % divisor == 0 for divisor in range(2, math.isqrt(least) + 1)):
        least += 1
    return least


class TaskService:
    """Deals tasks, one call at a time: a task set need not be thread-safe."""

    def __init__(self, task_set: TaskSet, *, timeout_s: float) -> None:
        """`timeout_s`: seconds that one request may take, unless it has a lower limit."""
        self._task_set = task_set
        self._timeout_s = timeout_s
        # Never more than one thread: a hanging call may be inside the task set's state.
        self._thread = ThreadPool(1, max_abandoned=0, name="tasks")
        self._running: tuple[float, float] | None = None
        """When the call under way began, and the seconds that its request may take."""
        self._reached: dict[Split, int] = {"train": 0, "heldout": 0}
        self._stride: dict[Split, int] = {"train": FIRST_STRIDE, "heldout": FIRST_STRIDE}
        self._hash: str | None = None
        self._failure = "the tasks are not ready yet"
        """Why the first tasks have not been dealt."""

    @property
    def problem(self) -> str | None:
        """Why tasks cannot be dealt now; None: they can."""
        if (running := self._running) is not None:
            began, limit_s = running
            if (blocked_s := time.monotonic() - began) > limit_s:
                return f"a call to the task set has not returned for {blocked_s:.0f} s"
        return self._failure if self._hash is None else None

    async def start(self, *, retry_s: float = RETRY_S) -> None:
        """Deal the first tasks, again and again until that succeeds. Whatever prevents it is in
        `problem`."""
        while self._hash is None:
            try:
                await self.prepare()
            except Exception as error:  # noqa: BLE001  else the server waits without a reason
                reason = str(error) if isinstance(error, WorldError) else repr(error)
                self._failure = f"the first tasks cannot be dealt: {reason}"
                LOG.warning("not ready: %s", self._failure)
                await asyncio.sleep(retry_s)

    async def prepare(self) -> str:
        """Deal the tasks that `tasks_hash` covers, once; returns their hash."""
        if self._hash is None:
            tasks = await self.tasks("heldout", 0, HASHED_TASKS)
            self._hash = tasks_hash(tuple(task.id for task in tasks))
        return self._hash

    async def tasks(
        self, split: Split, start: int, count: int, *, limit_s: float = math.inf
    ) -> tuple[Task, ...]:
        """Tasks `start` to `start + count - 1` of a split, within `limit_s` and `timeout_s`. Raises
        `TaskError` if they are not found in time, `SessionError` if the task set hangs."""
        tasks: list[Task] = []
        limit_s = min(self._timeout_s, limit_s)
        try:
            async with asyncio.timeout(limit_s) as limit:
                await self._approach(split, start, limit_s)
                while len(tasks) < count:
                    deal = partial(self._deal, split, start + len(tasks), start + count)
                    tasks += await self._call(deal, limit_s)
        except TimeoutError:
            if not limit.expired():
                raise  # the task set's own
            if self.problem is not None and self._hash is not None:
                raise SessionError(f"{self._task_set.name}: {self.problem}") from None
            raise TaskError(
                f"start: {split} task {start + len(tasks)} was not found in {limit_s:g} s; "
                f"the search has reached {self._reached[split]}; use a lower index, or try again"
            ) from None
        return tuple(tasks)

    async def numbered(self, number: int) -> Task:
        """The task with this number of a published data set. Raises `TaskError` if there is
        none, `SessionError` if the task set hangs."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._call(partial(self._numbered, number), self._timeout_s)
        except TimeoutError:
            if not limit.expired():
                raise  # the task set's own
            message = f"{self._task_set.name}: task {number} took longer than {self._timeout_s:g} s"
            raise SessionError(message) from None

    async def relabel(
        self, requested: tuple[Relabel, ...], *, limit_s: float = math.inf
    ) -> tuple[str, ...]:
        """The observations with their new goals, within `limit_s` and `timeout_s`. Raises
        `TaskError` if the environment has no relabeling, or an observation is not the first one of
        an episode, `SessionError` if it takes longer."""
        limit_s = min(self._timeout_s, limit_s)
        try:
            async with asyncio.timeout(limit_s) as limit:
                return await self._call(partial(self._relabel, requested), limit_s)
        except TimeoutError:
            if not limit.expired():
                raise  # the task set's own
            message = f"{self._task_set.name}: relabel took longer than {limit_s:g} s"
            raise SessionError(message) from None

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
        self._thread.close()

    async def _approach(self, split: Split, start: int, limit_s: float) -> None:
        """Bring an unbounded task set to `start` in slices: one call for a distant index could
        occupy it for minutes."""
        if self._task_set.size(split) is not None:
            return
        while (index := self._reached[split] + self._stride[split]) < start:
            began = time.monotonic()
            await self._call(partial(self._task_set.task, split, index), limit_s)
            took_s = time.monotonic() - began
            self._reached[split] = max(self._reached[split], index)
            if took_s < SLICE_S / 2:
                self._stride[split] = _stride(2 * self._stride[split])
            elif took_s > SLICE_S:
                self._stride[split] = _stride(max(1, self._stride[split] // 2))

    async def _call(self, call: Callable[[], T], limit_s: float) -> T:
        return await asyncio.wrap_future(self._thread.submit(self._timed, call, limit_s))

    def _timed(self, call: Callable[[], T], limit_s: float) -> T:
        """Runs in the thread. Records when the call began, for `problem`."""
        self._running = time.monotonic(), limit_s
        try:
            return call()
        finally:
            self._running = None

    def _deal(self, split: Split, start: int, stop: int) -> list[Task]:
        """The tasks from `start` that can be dealt within one slice; at least one."""
        until = time.monotonic() + SLICE_S
        tasks = [self._task_set.task(split, start)]
        while start + len(tasks) < stop and time.monotonic() < until:
            tasks.append(self._task_set.task(split, start + len(tasks)))
        return tasks

    def _numbered(self, number: int) -> Task:
        if not isinstance(self._task_set, Numbered):
            raise TaskError(f"{self._task_set.name}: its tasks have no numbers of a data set")
        return self._task_set.numbered(number)

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
