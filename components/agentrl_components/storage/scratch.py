"""Temporary folders that do not stay on the disk when their process is killed."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from agentrl_components.storage.locks import HOST, hold, is_abandoned

PREFIX = f"agentrl-{HOST}-"
NEW_PREFIX = f".{PREFIX}"
"""Of a folder that its process has not locked yet."""
NAME = re.compile(re.escape(PREFIX) + "[a-z0-9_]{8}")
"""Names of this machine's scratch folders: a prefix, and what `tempfile` adds."""


class ScratchFolder:
    """A temporary folder of this process, in the machine's folder for such files (`TMPDIR`).

    The process, and those that it forks, hold a shared lock on the folder for as long as they live.
    The first scratch folder that a process opens removes those that nobody holds: a process that
    was killed leaves the model or the checkpoint that it worked on, which takes gigabytes.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """`parent`: the folder that it is in, in place of `TMPDIR`."""
        parent = parent or Path(tempfile.gettempdir())
        _remove_abandoned(parent)
        new = Path(tempfile.mkdtemp(prefix=NEW_PREFIX, dir=parent))
        lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
        hold(lock)
        self.path = new.rename(new.with_name(new.name.removeprefix(".")))
        self._close = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder."""
        self._close()


@functools.cache  # once in a process: later ones are opened at every hand-over and checkpoint
def _remove_abandoned(parent: Path) -> None:
    """Remove the scratch folders of this user and machine in `parent` whose processes have
    ended."""
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if NAME.fullmatch(entry.name)]
    for path in found:
        with suppress(OSError):  # removed by another process, or a link
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid() and is_abandoned(lock):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _remove(path: Path, lock: int, owner: int) -> None:
    """Remove a folder, if this is the process that made it and not one that it has forked."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
