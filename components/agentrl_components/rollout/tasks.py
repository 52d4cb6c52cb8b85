"""Which tasks an iteration plays: a pure function of the iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from agentrl_components.spec import Environment
from agentrl_envs.env import Split, Task
from agentrl_envs.world import World


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A task and the environment it belongs to."""

    environment: str
    task: Task


class TaskSource:
    """Draws tasks from all environments, in proportion to their weights."""

    def __init__(self, environments: Sequence[Environment], worlds: Mapping[str, World]) -> None:
        self._environments = environments
        self._worlds = worlds

    async def draw(self, split: Split, count: int, batch: int = 0) -> list[DrawnTask]:
        """`count` tasks of a split: the batch-th consecutive slice of each environment's stream.
        Batches do not overlap until a finite stream starts over."""
        drawn = []
        for environment, share in zip(
            self._environments, shares([e.weight for e in self._environments], count), strict=True
        ):
            world = self._worlds[environment.name]
            if split == "heldout":
                share = min(share, world.size("heldout") or share)
            for i in range(batch * share, (batch + 1) * share):
                drawn.append(DrawnTask(environment.name, await world.task(split, i)))
        return drawn


class TaskPrefetcher:
    """Training tasks, drawn one batch ahead on a thread while workers play the current batch."""

    def __init__(self, draw: Callable[[Split, int, int], Sequence[DrawnTask]], count: int) -> None:
        """`draw(split, count, batch)` draws tasks and may be called on any thread."""
        self._draw, self._count = draw, count
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tasks")
        self._batch = -1
        self._next: Future[Sequence[DrawnTask]] | None = None

    def take(self, batch: int) -> Sequence[DrawnTask]:
        """The tasks of `batch`. Starts to draw the batch after it."""
        if self._next is None or self._batch != batch:
            self._next = self._start(batch)
        tasks = self._next.result()
        self._batch, self._next = batch + 1, self._start(batch + 1)
        return tasks

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _start(self, batch: int) -> Future[Sequence[DrawnTask]]:
        return self._thread.submit(self._draw, "train", self._count, batch)


def shares(weights: Sequence[float], count: int) -> list[int]:
    """`count` split in proportion to `weights`, by largest remainders; ties go to the earlier."""
    total = sum(weights)
    exact = [count * w / total for w in weights]
    out = [int(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda i: (out[i] - exact[i], i))
    for i in order[: count - sum(out)]:
        out[i] += 1
    return out
