"""Process that runs TRL in its own Python environment; requests and answers are lines of JSON.

`benchmarks/peer/install.sh` creates that environment. The process is idle between requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
DEFAULT = HERE.parents[1] / ".venv-peer" / "bin" / "python"

option = click.option(
    "--peer-python",
    envvar="AGENTRL_PEER_PYTHON",
    default=str(DEFAULT),
    show_default=".venv-peer/bin/python",
    help="Python with TRL; benchmarks/peer/install.sh creates one.",
)


class PeerError(Exception):
    """The TRL process did not start or has exited."""


class Peer:
    """A running TRL process."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            PeerError: The process has exited. The message has the end of its log.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerError(f"the TRL process has exited:\n{self._log.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def require(python: str) -> None:
    """Raise `click.ClickException` if `python` does not exist or cannot import TRL."""
    found = (
        Path(python).is_file()
        and not subprocess.run(
            [python, "-c", "import trl"], capture_output=True, check=False
        ).returncode
    )
    if not found:
        raise click.ClickException(
            f"{python} does not exist or cannot import TRL: run benchmarks/peer/install.sh, pass "
            "another Python with --peer-python, or measure AgentRL only with --no-peer"
        )


@contextmanager
def started(python: str, folder: Path, threads: int) -> Iterator[Peer]:
    """Start a TRL process with the model in `folder`, and kill it at the end."""
    with tempfile.TemporaryDirectory(prefix="agentrl-peer-") as scratch:
        log = Path(scratch) / "log"
        with log.open("w") as sink:
            process = subprocess.Popen(
                [python, str(HERE / "trl_side.py"), str(folder), str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                cwd=scratch,
                env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            )
            try:
                yield Peer(process, log)
            finally:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()


def started_if(
    wanted: bool, python: str, folder: Path, threads: int
) -> AbstractContextManager[Peer | None]:
    """`started`, or a context that yields None if the peer is not wanted."""
    return started(python, folder, threads) if wanted else nullcontext()
