"""Where workers live: in this process, or one process each, side by side.

Both give the same results to the bit. Jobs are cut into as many parts as there are workers and any
worker may take any part; a part's result depends on the part alone.
"""

from __future__ import annotations

import ctypes
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
from typing import Protocol, TypeVar

import torch.multiprocessing  # noqa: F401  tensors in a setup are shared, not copied

from agentrl_components.errors import RunError
from agentrl_components.workers import fork_server
from agentrl_components.workers.worker import Setup, Worker

T = TypeVar("T")

DIED = "a worker process died (out of memory?); run the same command again to resume"


class Pool(Protocol):
    """Runs a method of `Worker` once for each tuple of arguments."""

    size: int

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        """Results in the order of `calls`."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


class InProcess:
    """One worker, here."""

    size = 1

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        return [method(self._worker, *arguments) for arguments in calls]

    def close(self) -> None:
        self._worker.close()


class Hands:
    """Worker processes that wait to be told what they are made from."""

    def __init__(self, size: int, context: BaseContext) -> None:
        """`context` is one of `nursery`. All start now, side by side, while this process goes on.
        Raises `RunError` where the server that they come from has died."""
        self.size = size
        self._setups = context.SimpleQueue()
        self._waiting = True
        self.executor = ProcessPoolExecutor(
            size, mp_context=context, initializer=_start, initargs=(self._setups,)
        )
        try:
            with fork_server.uninterrupted():
                self._starting = [self.executor.submit(_call, _ready) for _ in range(size)]
        except (EOFError, OSError) as error:
            self.close()
            raise RunError(DIED) from error

    def tell(self, setup: Setup | None) -> None:
        """What they are made from. None: they were not needed."""
        self._waiting = False
        for _ in range(self.size):
            self._setups.put(setup)

    def close(self) -> None:
        """End them. May be called twice."""
        if self._waiting:
            self.tell(None)
        self.executor.shutdown(cancel_futures=True)


class Processes:
    """Several workers, each a process with one thread of arithmetic. `lead` is a worker of this
    process whose weights they share; it does no work itself, so this process stays free to
    record."""

    def __init__(self, lead: Worker, setup: Setup, hands: Hands) -> None:
        self.size = hands.size
        self._lead = lead
        self._hands = hands
        critic = lead.values.shared if lead.critic is not None else None
        hands.tell(replace(setup, policy=lead.policy.shared, critic=critic))

    def map(self, method: Callable[..., T], calls: Sequence[tuple[object, ...]]) -> list[T]:
        futures = [self._hands.executor.submit(_call, method, *arguments) for arguments in calls]
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise RunError(DIED) from error

    def close(self) -> None:
        self._hands.close()
        self._lead.close()


_worker: Worker | None = None


def _start(setups: SimpleQueue[Setup | None]) -> None:
    """Make this process's worker, once it is told from what."""
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_memory()
    setup = setups.get()
    if setup is not None:
        _worker = Worker(setup)


def _ready(worker: Worker) -> None:
    del worker


def _call(method: Callable[..., T], *arguments: object) -> T:
    assert _worker is not None
    return method(_worker, *arguments)


def _end_with_parent() -> None:
    """A parent that is killed outright closes nothing; its workers must not linger."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def keep_memory() -> None:
    """Tell glibc to keep freed memory: passes of ever new shapes otherwise give it back and ask
    for it again, page by page. A few per cent; nothing where the C library is another."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except OSError:
        return
    trim_threshold, mmap_threshold = -1, -3
    mallopt(trim_threshold, 1 << 30)
    mallopt(mmap_threshold, 1 << 30)
