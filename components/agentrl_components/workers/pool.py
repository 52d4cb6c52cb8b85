"""Pools of workers: one in this process, or several processes side by side.

Both give bit-identical results. Work is split into parts, any worker may take any part, and the
result of a part depends on the part alone.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.queues import SimpleQueue
from multiprocessing.util import Finalize
from typing import Protocol, TypeVar

import torch.multiprocessing  # noqa: F401  shares the tensors of a setup instead of copying

from agentrl_components.errors import RunError
from agentrl_components.workers.fork_server import group_signals_blocked
from agentrl_components.workers.memory import set_up_memory
from agentrl_components.workers.worker import Setup, Worker

T = TypeVar("T")

DIED = "a worker process died (out of memory?); run the same command again to resume"


class WorkerPool(Protocol):
    """Calls a method of `Worker` once for each tuple of arguments."""

    size: int

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        """The results, in the order of `calls`. Raises `RunError` if a worker process died."""
        ...

    def close(self) -> None:
        """Stop the workers."""
        ...


class InProcessPool:
    """One worker, in this process."""

    size = 1

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        return [method(self._worker, *arguments) for arguments in calls]

    def close(self) -> None:
        self._worker.close()


class PendingWorkers:
    """Worker processes that were started and wait for their `Setup`."""

    def __init__(self, size: int, context: BaseContext) -> None:
        """Start `size` processes of a context from `fork_server`, without waiting for them. Raises
        `RunError` if the fork server has died."""
        self.size = size
        self._setups = context.SimpleQueue()
        self._waiting = True
        self.executor = ProcessPoolExecutor(
            size, mp_context=context, initializer=_start, initargs=(self._setups,)
        )
        try:
            with group_signals_blocked():
                self._starting = [self.executor.submit(_call, _ready) for _ in range(size)]
        except (EOFError, OSError) as error:
            self.close()
            raise RunError(DIED) from error

    def send(self, setup: Setup | None) -> None:
        """Send every process its setup. None: the processes are not needed."""
        self._waiting = False
        for _ in range(self.size):
            self._setups.put(setup)

    def close(self) -> None:
        """Stop the processes. May be called twice."""
        if self._waiting:
            self.send(None)
        self.executor.shutdown(cancel_futures=True)


class ProcessPool:
    """Several worker processes with one compute thread each. They share the weights of `lead`, a
    worker of this process that does no work itself, so that this process stays responsive."""

    def __init__(self, lead: Worker, setup: Setup, pending: PendingWorkers) -> None:
        self.size = pending.size
        self._lead = lead
        self._pending = pending
        critic = lead.values.shared if lead.critic is not None else None
        pending.send(replace(setup, policy=lead.policy.shared, critic=critic))

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        futures = [self._pending.executor.submit(_call, method, *arguments) for arguments in calls]
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise RunError(DIED) from error

    def close(self) -> None:
        self._pending.close()
        self._lead.close()


_worker: Worker | None = None


def _start(setups: SimpleQueue[Setup | None]) -> None:
    """Create the worker of this process once its setup arrives."""
    global _worker
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    set_up_memory()
    setup = setups.get()
    if setup is not None:
        _worker = Worker(setup)
        # The process waits for its own child processes, so they must have been told to end; and
        # before the queues to them are closed, which has priority 10.
        Finalize(None, _worker.close, exitpriority=100)


def _ready(worker: Worker) -> None:
    del worker


def _call(method: Callable[..., T], *arguments: object) -> T:
    assert _worker is not None
    return method(_worker, *arguments)


def _exit_with_parent() -> None:
    """Exit when the parent process ends: a parent killed by SIGKILL cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
