"""The termination message of a container, in which Kubernetes shows why its process failed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

TERMINATION_LOG = Path("/dev/termination-log")
"""The file whose content Kubernetes shows as the container's termination message."""
MAX_MESSAGE = 4000
"""Characters of the message; Kubernetes keeps 4096 bytes of the file."""


def write_termination(
    reason: str, message: str, path: Path = TERMINATION_LOG, *, permanent: bool
) -> None:
    """Write why this process fails to the termination message of its container. Outside Kubernetes
    there is none."""
    termination = {"reason": reason, "message": message[:MAX_MESSAGE], "final": permanent}
    with contextlib.suppress(OSError):
        if path.exists():
            path.write_text(json.dumps(termination), encoding="utf-8")


@contextlib.contextmanager
def reported(kind: type[Exception], path: Path = TERMINATION_LOG) -> Iterator[None]:
    """Write an error of this kind, which a restart would only repeat, to the termination message,
    and raise it again."""
    try:
        yield
    except kind as error:
        write_termination(type(error).__name__, str(error), path, permanent=True)
        raise
