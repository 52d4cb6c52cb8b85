"""The temporary folder in which the files of a checkpoint are written before they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors import SafetensorError

from agentrl_components.errors import StoreError

FULL = (ENOSPC, EDQUOT, EFBIG)
"""Errors of the operating system that say that a file has no room."""
_NUMBER = re.compile(r"os error (\d+)")
"""In the text of safetensors' errors."""


@contextmanager
def spool_in(folder: Path) -> Iterator[Path]:
    """A folder in `folder` for the files of a checkpoint, so that they need not fit into memory.
    Raises `StoreError` if they do not fit there."""
    try:
        with TemporaryDirectory(dir=folder, prefix="checkpoint-") as spool:
            yield Path(spool)
    except (OSError, SafetensorError) as error:
        if not _is_full(error):
            raise
        raise StoreError(
            f"{folder}: {error}; checkpoints are written there before they are stored: free some "
            "space, or set TMPDIR to a folder with more"
        ) from error


def _is_full(error: OSError | SafetensorError) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    found = _NUMBER.search(str(error))
    return found is not None and int(found[1]) in FULL
