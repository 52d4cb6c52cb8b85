"""Processes that the multiprocessing module has spawned, such as those that run environments."""

from collections.abc import Sequence
from contextlib import suppress

import psutil


def spawned(pid: int | None = None, *, but: Sequence[psutil.Process] = ()) -> list[psutil.Process]:
    """Spawned processes below a process (None: this one) that run, without those in `but`."""
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile, or is a zombie
            if one not in but and "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
    return found
