"""How a process that computes manages its memory."""

from __future__ import annotations

import ctypes
import gc

GARBAGE_AFTER = 20_000
"""Number of objects that a process creates, less those that it deletes, between two collections of
garbage. Each turn of a batch of episodes reaches Python's default of 700, with objects that are
still in use."""


def set_up_memory() -> None:
    """Keep freed memory, and collect garbage seldom. Each saves a few per cent of a rollout
    (`benchmarks/ablations.py --only garbage`)."""
    _keep_freed_memory()
    gc.set_threshold(GARBAGE_AFTER, 20, 20)


def _keep_freed_memory() -> None:
    """Make glibc keep freed memory: passes of varying shapes would otherwise return it to the
    kernel and request it again, page by page. A no-op without glibc."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except OSError:
        return
    trim_threshold, mmap_threshold = -1, -3
    mallopt(trim_threshold, 1 << 30)
    mallopt(mmap_threshold, 1 << 30)
