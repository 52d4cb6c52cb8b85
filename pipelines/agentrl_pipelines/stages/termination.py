"""The termination message of a container, in which Kubernetes shows why its process failed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
"""The file whose content Kubernetes shows as the container's termination message."""
LIMIT = 4096
"""Bytes of the file that Kubernetes keeps."""


def write_termination(
    reason: str, message: str, path: Path = TERMINATION_LOG, *, permanent: bool
) -> None:
    """Write why this process fails to the termination message of its container. Outside Kubernetes
    there is none. The end of a long message is left out."""
    low, high = 0, min(len(message), LIMIT)
    while low < high:  # the longest beginning that fits, by bisection: escapes differ in length
        middle = (low + high + 1) // 2
        if len(_encoded(reason, message[:middle], permanent)) <= LIMIT:
            low = middle
        else:
            high = middle - 1
    with contextlib.suppress(OSError):
        if path.exists():
            path.write_bytes(_encoded(reason, message[:low], permanent))


def _encoded(reason: str, message: str, permanent: bool) -> bytes:
    return json.dumps({"reason": reason, "message": message, "final": permanent}).encode()


@contextlib.contextmanager
def reported(kind: type[Exception], path: Path = TERMINATION_LOG) -> Iterator[None]:
    """Write an error of this kind, which a restart would only repeat, to the termination message,
    and raise it again."""
    try:
        yield
    except kind as error:
        write_termination(type(error).__name__, str(error), path, permanent=True)
        raise
