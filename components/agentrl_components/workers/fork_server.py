"""Where worker processes come from: a process that has loaded what they need, and forks them.

Loading torch and all that goes with it takes a second of processor time. A fork of a process that
has done so has it for nothing, and shares its memory. But a fork of a process with threads may
catch one of them halfway. So a process that has no other threads yet forks its workers itself, and
any other asks a server, which has loaded the same, has no threads and computes nothing.
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

LOADED = "agentrl_components.workers.preload"
"""The module that imports what workers need."""


def own() -> BaseContext | None:
    """Processes that are forks of this one; None where it cannot be forked safely."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    return multiprocessing.get_context("fork")


def server() -> BaseContext:
    """Processes that are forks of a server. Elsewhere than on Linux each loads for itself: system
    libraries may not be used there after a fork."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([LOADED])
    with uninterrupted():
        forkserver.ensure_running()
    return made


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Processes that are started within do not see Ctrl-C: it reaches the whole process group, and
    only the parent decides what it means."""
    resource_tracker.ensure_running()  # it would lift the block as it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
