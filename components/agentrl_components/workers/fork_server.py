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
from multiprocessing.context import BaseContext

PRELOAD = "agentrl_components.workers.preload"
"""The module that imports what workers need."""


def fork_context() -> BaseContext | None:
    """A context that forks this process. None: this process cannot be forked safely."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    return multiprocessing.get_context("fork")


def fork_server_context() -> BaseContext:
    """A context that forks a preloaded server. On platforms other than Linux each process imports
    for itself, because system libraries may not be used there after a fork."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    with sigint_blocked():
        forkserver.ensure_running()
    return context


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Start processes that ignore Ctrl-C. It is sent to the whole process group, and only the
    parent decides how to react."""
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
