"""Locks that tell whether the process of a temporary file or folder is alive."""

from __future__ import annotations

import fcntl
import hashlib
import socket
from contextlib import suppress

HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
"""Part of the names of this machine's temporary files. Machines that share a file system may not
see each other's locks (NFS with `local_lock`, Lustre with `localflock`), so each judges its own."""


def hold(descriptor: int) -> None:
    """Lock an open file or folder for as long as this process, or one that it forks, has it
    open. Does nothing on a file system without locks."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_abandoned(descriptor: int) -> bool:
    """Whether no process holds an open file or folder of this machine. False on a file system
    without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
