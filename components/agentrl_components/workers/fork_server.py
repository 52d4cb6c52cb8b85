"""Multiprocessing contexts whose processes start with torch already imported.

Importing torch and its dependencies takes a second of CPU time. A fork of a process that has
imported them gets them for free and shares their memory. Forking a process that has several threads
is unsafe, so a process without other threads forks its workers itself, and any other process uses a
fork server that has imported the same modules and runs no threads.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import (
    BaseContext,
    ForkContext,
    ForkProcess,
    ForkServerContext,
    ForkServerProcess,
)

PRELOAD = "agentrl_components.workers.preload"
"""The module that imports what workers need."""

GROUP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that a terminal, open or closed, `timeout`, systemd or Slurm send to the whole process
group."""


class _ForkProcess(ForkProcess):
    def terminate(self) -> None:
        """Workers block SIGTERM, which `ProcessPoolExecutor` uses to end them."""
        self.kill()


class _ForkServerProcess(ForkServerProcess):
    def terminate(self) -> None:
        self.kill()


class _ForkContext(ForkContext):
    Process = _ForkProcess


class _ForkServerContext(ForkServerContext):
    Process = _ForkServerProcess


def fork_context() -> BaseContext | None:
    """A context that forks this process. None: this process cannot be forked safely."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    return _ForkContext()


def fork_server_context() -> BaseContext:
    """A context that forks a preloaded server. On platforms other than Linux each process imports
    for itself, because system libraries may not be used there after a fork."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = _ForkServerContext()
    context.set_forkserver_preload([PRELOAD])
    with group_signals_blocked():
        forkserver.ensure_running()
    return context


@contextmanager
def group_signals_blocked() -> Iterator[None]:
    """Start processes that ignore `GROUP_SIGNALS`: only the parent decides how to react. Workers
    that died of them would look as if they had run out of memory."""
    # Python's resource tracker ignores SIGINT and SIGTERM, and inherits the blocked SIGHUP.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    resource_tracker.ensure_running()  # starting it later would unblock the signals
    signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
