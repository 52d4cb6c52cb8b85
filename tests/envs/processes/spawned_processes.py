"""Processes that the multiprocessing module has spawned, such as those that run environments, and
whether a process has ended."""

from collections.abc import Iterable, Sequence
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


def has_ended(pid: int) -> bool:
    """Whether a process has ended. One that nobody has asked for its exit status has, too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def existing(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes among these that exist."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found
