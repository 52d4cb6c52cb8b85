"""Lock on the folders of a local run: only one process may run in them at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from agentrl_components.errors import RunError

LOCK_FILE = ".lock"
"""The lock file in each of them, which is no key of a store. It holds the process id, the host and
the start time of the process that has the lock."""
_HELD = (errno.EACCES, errno.EAGAIN)
_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, on which the run goes on without one."""


@contextmanager
def lock_root(
    root: Path,
    note: Callable[[str], None] = lambda text: None,
    *,
    instead: str = "give another --root",
) -> Iterator[None]:
    """Hold the lock of the folder `root`: that of the run, or that of its store. `note` is told if
    its file system has no locks. `instead` is what a second run may do in place of waiting, for the
    message.

    A POSIX record lock: the kernel releases it when this process ends, however it ends, and forked
    workers do not inherit it.

    Raises:
        RunError: another process holds the lock; the message names it.
    """
    path = root / LOCK_FILE
    file = _locked_file(path, note, instead)
    try:
        file.truncate(0)
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {socket.gethostname()}, started {started}\n")
        file.flush()
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def holder_was_killed(root: Path) -> bool:
    """Whether the last process that ran in `root` was killed, as by SIGKILL: its lock is free, but
    its lock file is there. False if that is not known, as of a process on another host, whose locks
    may not be visible here."""
    try:
        with (root / LOCK_FILE).open("rb") as file:
            # A shared lock, which is given back at once; a file that is only read can have it.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            holder = file.read().decode()
    except (OSError, UnicodeDecodeError):  # there is no file, it is locked, or there are no locks
        return False
    return f" on {socket.gethostname()}, started " in holder


def _locked_file(path: Path, note: Callable[[str], None], instead: str) -> IO[str]:
    """The lock file, opened and locked."""
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                note(
                    f"{path.parent}: the file system has no locks ({error.strerror}): a second run "
                    "in this folder would not be refused, and would delete records of this one"
                )
                return file
            with file:
                if error.errno not in _HELD:
                    raise
                file.seek(0)
                holder = file.read().strip() or "another process"
            raise RunError(
                f"{path.parent}: in use by {holder}; wait for it, stop it, or {instead}"
            ) from None
        try:
            # The previous holder may have deleted the file between our open and our lock.
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()
