"""Commands that a test starts, and that do not outlive it."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


@contextmanager
def started(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.STDOUT,
) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own. When the block ends, also by an error, the command is
    killed with all processes below it and all of its process group."""
    process = subprocess.Popen(
        command,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):  # some may have a session of their own, too
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
