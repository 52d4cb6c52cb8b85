"""Output whose failure ends nothing, for progress and summaries of long work."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import IO, TextIO, cast

from agentrl_envs.output.console import Console


class FailSafeStream(io.TextIOBase):
    """A stream that drops what cannot be written, for output that is not worth the end of a run.

    The reader of a pipe may be gone, the disk of a log file full, a terminal closed. rich would end
    the process on a broken pipe and raise the other errors. Characters that the encoding of the
    stream does not have are escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute in the base class
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                escaped = text.encode(self.encoding, "backslashreplace")
                self._stream.write(escaped.decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        with suppress(ValueError):
            return self._stream.isatty()
        return False

    def fileno(self) -> int:
        return self._stream.fileno()


def fail_safe_console(*, stderr: bool = False) -> Console:
    """A console for progress and summaries, whose failing output ends nothing."""
    stream = sys.stderr if stderr else sys.stdout
    file = None if stream is None else cast(IO[str], FailSafeStream(stream))
    return Console(file=file, stderr=stderr)
