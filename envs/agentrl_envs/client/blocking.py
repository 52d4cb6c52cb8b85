"""A remote world as an ordinary `TaskSet`, for synchronous code: the conformance checker and the
terminal. All calls share one event loop, so connections are kept alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Observation, Split, Step, Task
from agentrl_envs.world import Session, World


class BlockingTaskSet:
    """A context manager for use from one thread."""

    def __init__(
        self,
        source: str | Callable[[], Coroutine[Any, Any, World]],
        *,
        token: str | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        """`source`: the URL of an environment server, or what connects to another world."""
        self._runner = asyncio.Runner()
        with ExitStack() as cleanup:
            cleanup.callback(self._runner.close)
            self._world: World = self._runner.run(
                RemoteWorld.connect(source, token=token, options=options)
                if isinstance(source, str)
                else source()
            )
            cleanup.pop_all()
        self.name = self._world.name
        if self._world.relabels:  # `env.Relabels` is told by whether the method exists
            self.relabel = self._relabel

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def instructions(self) -> str:
        return self._world.instructions()

    def size(self, split: Split) -> int | None:
        return self._world.size(split)

    def vocabulary(self) -> tuple[str, ...] | None:
        return self._world.vocabulary()

    def task(self, split: Split, index: int) -> Task:
        return self._runner.run(self._world.task(split, index))

    def environment(self) -> BlockingEnvironment:
        return BlockingEnvironment(self._runner, self._world.session())

    def _relabel(self, observation: str, goal: str, /) -> str:
        return self._runner.run(self._world.relabel([(observation, goal)]))[0]

    def close(self) -> None:
        """Close the connections and the loop."""
        self._runner.run(self._world.close())
        self._runner.close()


class BlockingEnvironment:
    """One remote session as an `Environment`."""

    def __init__(self, runner: asyncio.Runner, session: Session) -> None:
        self._runner = runner
        self._session = session

    def reset(self, task: Task) -> Observation:
        return self._runner.run(self._session.reset(task))

    def step(self, action: str) -> Step:
        return self._runner.run(self._session.step(action))

    def close(self) -> None:
        self._runner.run(self._session.close())
