"""Temporary folders that do not stay on the disk when their process is killed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

PREFIX = "agentrl-tmp-"
NAME = re.compile(re.escape(PREFIX) + "[a-z0-9_]{8}")
"""Names that `tempfile` makes of the prefix."""
NEW_S = 60.0
"""A folder that has changed since then may belong to a process that has not locked it yet."""


class ScratchFolder:
    """A temporary folder of this process, in the machine's folder for such files (`TMPDIR`).

    The process, and those that it forks, hold a shared lock on the folder for as long as they live.
    Opening a scratch folder removes those that nobody holds: a process that was killed leaves the
    model or the checkpoint that it worked on, which is gigabytes.
    """

    def __init__(self) -> None:
        remove_abandoned()
        self._temporary = TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self.path = Path(self._temporary.name)
        lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self._unlock = weakref.finalize(self, os.close, lock)
        with suppress(OSError):  # a file system without locks, where nothing is removed either
            fcntl.flock(lock, fcntl.LOCK_SH)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        self._temporary.cleanup()
        self._unlock()


def remove_abandoned() -> None:
    """Remove the scratch folders of this user whose processes have ended."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [entry.path for entry in entries if NAME.fullmatch(entry.name)]
    for path in found:
        with suppress(OSError):  # locked, or removed by another process
            _remove_unlocked(path)


def _remove_unlocked(path: str) -> None:
    """Remove a folder. Raises `OSError` if a process holds it."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(lock)
        if status.st_uid == os.getuid() and time.time() - status.st_mtime > NEW_S:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
