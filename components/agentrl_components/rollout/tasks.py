"""Which tasks an iteration plays: a pure function of its number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from agentrl_components.spec import Environment
from agentrl_envs.env import Split, Task
from agentrl_envs.world import World


@dataclass(frozen=True, slots=True)
class Drawn:
    """A task and the world it belongs to."""

    environment: str
    task: Task


class TaskSource:
    """Deals the tasks of all worlds, in shares given by their weights."""

    def __init__(self, environments: Sequence[Environment], worlds: Mapping[str, World]) -> None:
        self._environments = environments
        self._worlds = worlds

    async def draw(self, split: Split, count: int, batch: int = 0) -> list[Drawn]:
        """`count` tasks: the batch-th such helping from each world's stream. Batches do not overlap
        until a finite stream begins again."""
        drawn = []
        for environment, share in zip(
            self._environments, shares([e.weight for e in self._environments], count), strict=True
        ):
            world = self._worlds[environment.name]
            if split == "heldout":
                share = min(share, world.size("heldout") or share)
            for i in range(batch * share, (batch + 1) * share):
                drawn.append(Drawn(environment.name, await world.task(split, i)))
        return drawn


class Upcoming:
    """Training tasks, drawn ahead on a thread while workers are busy with the batch before."""

    def __init__(self, draw: Callable[[Split, int, int], Sequence[Drawn]], count: int) -> None:
        """`draw` deals a batch of a split, on any thread."""
        self._deal, self._count = draw, count
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tasks")
        self._batch = -1
        self._next: Future[Sequence[Drawn]] | None = None

    def take(self, batch: int) -> Sequence[Drawn]:
        """The tasks of `batch`; the one after it is begun."""
        drawn = self._next if self._next is not None and self._batch == batch else self._draw(batch)
        tasks = drawn.result()
        self._batch, self._next = batch + 1, self._draw(batch + 1)
        return tasks

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _draw(self, batch: int) -> Future[Sequence[Drawn]]:
        return self._thread.submit(self._deal, "train", self._count, batch)


def shares(weights: Sequence[float], count: int) -> list[int]:
    """`count` things shared out by weight: largest remainders first, ties to the earlier."""
    total = sum(weights)
    exact = [count * w / total for w in weights]
    out = [int(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda i: (out[i] - exact[i], i))
    for i in order[: count - sum(out)]:
        out[i] += 1
    return out
