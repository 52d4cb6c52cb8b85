"""The asynchronous interface of an environment, as rollouts use it.

A `World` deals tasks and opens sessions. `LocalWorld` wraps a `TaskSet` of this process. It calls
environments whose steps take less than about a millisecond directly on the event loop, and those
that wait for another program, such as a JVM or a browser, in threads of the world.
`client.remote_world.RemoteWorld` implements the same interface over HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.calls.thread_pool import ThreadPool, environment_threads
from agentrl_envs.calls.watch import WATCH, CallWatch
from agentrl_envs.env import Environment, Observation, Relabels, Split, Step, Task, TaskSet
from agentrl_envs.errors import SessionError, TaskError

T = TypeVar("T")

CLOSE_S = 10.0
"""Seconds for which a session that is closed waits for its call that still runs in a thread. Most
calls return, and then the next session finds a free place in a browser or a JVM."""


@runtime_checkable
class Session(Protocol):
    """One session of a world, reused through `reset`.

    Every call may raise `SessionError` (the episode is lost, not failed) and `ContractError` (the
    environment violated the contract); `reset` also raises `TaskError` and `CapacityError`."""

    async def reset(self, task: Task) -> Observation:
        """Set up a task and return its first observation."""
        ...

    async def step(self, text: str) -> Step:
        """Take the agent's whole reply."""
        ...

    async def close(self) -> None:
        """Close the session. May be called twice; does not raise for a session that is lost."""
        ...


@runtime_checkable
class World(Protocol):
    """Deals tasks and opens sessions."""

    @property
    def name(self) -> str: ...

    def instructions(self) -> str: ...

    def vocabulary(self) -> tuple[str, ...] | None: ...

    def size(self, split: Split) -> int | None: ...

    async def task(self, split: Split, index: int) -> Task: ...

    def session(self) -> Session:
        """A new session. It holds no resources before its first `reset`."""
        ...

    @property
    def waiting(self) -> int:
        """Number of resets that wait until another session is closed."""
        ...

    @property
    def shared(self) -> bool:
        """Whether other clients wait for the places that its sessions hold. A session that has no
        next episode should be closed then."""
        ...

    @property
    def relabels(self) -> bool:
        """Whether `relabel` is supported."""
        ...

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        """For each (first observation, goal): the observation with that goal in place of its own.
        Raises `TaskError` if relabeling is not supported or a text is not a first observation."""
        ...

    async def close(self) -> None:
        """Release the resources of this client."""
        ...


class LocalSession:
    """A session of an environment in this process, which `make` makes for the first call. `threads`
    make its calls; None: they do not block. `name` is that of the environment in errors of its code
    (`CodeError`) and in notes of `watch`. `close` waits at most `close_s` seconds for a call of a
    cancelled episode that still runs in its thread; one that takes longer is followed by the close
    when it returns."""

    def __init__(
        self,
        make: Callable[[], Environment],
        name: str,
        *,
        threads: ThreadPool | None = None,
        watch: CallWatch = WATCH,
        close_s: float = CLOSE_S,
    ) -> None:
        self._make = make
        self._environment: Environment | None = None
        self._threads = threads
        self._close_s = close_s
        self._last_call: Future[Any] | None = None
        """In a thread. It goes on there if its caller is cancelled."""
        self._name = name
        self._watch = watch
        self._task: Task | None = None
        self._checker = AnswerChecker(name)

    async def reset(self, task: Task) -> Observation:
        self._task = task
        observation = await self._call("reset", lambda environment: environment.reset(task))
        return self._checker.reset(observation, task)

    async def step(self, text: str) -> Step:
        step = await self._call("step", lambda environment: environment.step(text))
        return self._checker.step(step)

    async def close(self) -> None:
        last = self._last_call
        if self._threads is None or last is None or last.done():
            if self._environment is not None:
                await self._call("close", lambda environment: environment.close())
            return
        # Beside the call, the close could come before a reset takes what it should release, or
        # release a simulator in which the call then acts.
        closed = asyncio.wrap_future(self._close_after(last, self._threads))
        try:
            done, _ = await asyncio.wait([closed], timeout=self._close_s)
            with code_errors(self._name, self._task):
                for one in done:
                    one.result()
        finally:
            closed.cancel()  # this loop may be closed before the call returns

    def _close_after(self, last: Future[Any], threads: ThreadPool) -> Future[None]:
        """Close the environment in a thread, once the call `last` has returned. Returns a future
        that is done when it is closed."""
        closed: Future[None] = Future()
        closed.set_running_or_notify_cancel()  # it happens also if nobody waits for it any more

        def close() -> None:
            try:
                if self._environment is not None:
                    self._watched("close", lambda environment: environment.close())
            except BaseException as error:  # noqa: BLE001  re-raised by the future's reader
                closed.set_exception(error)
            else:
                closed.set_result(None)

        def start(_: Future[Any]) -> None:
            try:
                threads.submit(close)
            except SessionError:  # the world was closed meanwhile, so this is the call's thread
                close()

        last.add_done_callback(start)
        threads.abandon(last)
        return closed

    async def _call(self, name: str, call: Callable[[Environment], T]) -> T:
        with code_errors(self._name, self._task):
            if self._threads is None:
                return self._watched(name, call)
            future = self._threads.submit(self._watched, name, call)
            self._last_call = future
            return await asyncio.wrap_future(future)

    def _watched(self, name: str, call: Callable[[Environment], T]) -> T:
        """Call the environment, a new one if there is none. A call that waits for a thread has not
        begun."""
        if self._environment is None:
            with self._watch.call(self._name, "environment"):
                self._environment = self._make()
        with self._watch.call(self._name, name, self._task):
            return call(self._environment)


class LocalWorld:
    """A task set in this process. `in_threads`: calls of its environments block. `close_s` is that
    of `LocalSession`."""

    waiting = 0
    shared = False

    def __init__(
        self,
        task_set: TaskSet,
        *,
        in_threads: bool = False,
        watch: CallWatch = WATCH,
        close_s: float = CLOSE_S,
    ) -> None:
        self.task_set = task_set
        self._close_s = close_s
        self.in_threads = in_threads
        self.watch = watch
        # Its own, because calls that hang must not block other environments.
        self._threads = environment_threads() if in_threads else None

    @property
    def name(self) -> str:
        return self.task_set.name

    def instructions(self) -> str:
        with self._call("instructions"):
            return self.task_set.instructions()

    def vocabulary(self) -> tuple[str, ...] | None:
        with self._call("vocabulary"):
            return self.task_set.vocabulary()

    def size(self, split: Split) -> int | None:
        with self._call("size"):
            return self.task_set.size(split)

    async def task(self, split: Split, index: int) -> Task:
        with self._call(f"task({split!r}, {index})"):
            return self.task_set.task(split, index)

    def session(self) -> Session:
        return LocalSession(
            self.task_set.environment,
            self.name,
            threads=self._threads,
            watch=self.watch,
            close_s=self._close_s,
        )

    @property
    def relabels(self) -> bool:
        return isinstance(self.task_set, Relabels)

    async def relabel(self, openings: Sequence[tuple[str, str]]) -> list[str]:
        if not isinstance(self.task_set, Relabels):
            raise TaskError(f"{self.name}: this environment does not support relabeling")
        with self._call("relabel"):
            return [self.task_set.relabel(observation, goal) for observation, goal in openings]

    async def close(self) -> None:
        """End the threads. Sessions are closed before, by those who opened them."""
        if self._threads is not None:
            self._threads.close()

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        """A call of the task set: watched, with errors of its code named."""
        with code_errors(self.name), self.watch.call(self.name, name):
            yield
