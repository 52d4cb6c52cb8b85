"""TRL in a process of its own, with its own Python: asked by lines of JSON, answers alike.

`benchmarks/peer.sh` makes that Python. While the peer is not asked anything it does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
DEFAULT = HERE.parent / ".venv-peer" / "bin" / "python"

option = click.option(
    "--peer-python",
    envvar="AGENTRL_PEER_PYTHON",
    default=str(DEFAULT),
    show_default=".venv-peer/bin/python",
    help="The Python that has TRL; benchmarks/peer.sh makes one.",
)


class PeerError(Exception):
    """The peer died or never began."""


class Peer:
    """A TRL process at the ready."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, **question: Any) -> dict[str, Any]:
        """Its answer. Raises `PeerError` with the end of its log when it cannot give one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise PeerError(f"TRL gave no answer:\n{self._log.read_text()[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def required(python: str) -> None:
    """End with a plain word where there is no such Python or it has no TRL."""
    found = (
        Path(python).is_file()
        and not subprocess.run(
            [python, "-c", "import trl"], capture_output=True, check=False
        ).returncode
    )
    if not found:
        raise click.ClickException(
            f"no TRL at {python}: run benchmarks/peer.sh, or name a Python that has it with "
            "--peer-python, or measure our side alone with --no-peer"
        )


@contextmanager
def started(python: str, folder: Path, threads: int) -> Iterator[Peer]:
    """A TRL process on the model in `folder`."""
    with tempfile.TemporaryDirectory(prefix="agentrl-peer-") as scratch:
        log = Path(scratch) / "log"
        with log.open("w") as sink:
            process = subprocess.Popen(
                [python, str(HERE / "peer_trl.py"), str(folder), str(threads)],
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


def perhaps(
    wanted: bool, python: str, folder: Path, threads: int
) -> AbstractContextManager[Peer | None]:
    """`started`, or nothing."""
    return started(python, folder, threads) if wanted else nullcontext()


def machine() -> dict[str, Any]:
    """What a number cannot be read without."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": sys.version.split()[0],
    }
