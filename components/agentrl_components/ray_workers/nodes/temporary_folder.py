"""The folder in which Ray's processes on this machine have sockets, logs and spilled objects."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SOCKET_BYTES = 103
"""Longest path of a socket: 107 bytes on Linux, and 103 on macOS."""
SOCKET = "session_2026-11-26_21-27-11_402419_4194304/sockets/plasma_store.9"
"""Longest path of a socket below Ray's folder."""
SHORT = Path("/tmp")


def temporary_folder(own: str) -> Path:
    """The folder in which Ray gets a folder of its own, whose name has the length of `own`.

    It is `RAY_TMPDIR` if that is set. Otherwise it is the folder for temporary files (`TMPDIR`), or
    `/tmp` if the paths of Ray's sockets would be too long there."""
    chosen = os.environ.get("RAY_TMPDIR")
    if chosen is not None:
        return Path(chosen)
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual / own / SOCKET)) <= SOCKET_BYTES else SHORT
