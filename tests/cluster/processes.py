"""The cluster's processes: each has a name, a log, and can be killed and started again by name.

    start("minio", ["minio", "server", ...], ready=http("http://10.244.0.1:9000/minio/health/live"))

What was started is written down, so that another command can `restart` it as it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from place import STATE, ClusterError

RECORDS = STATE / "processes"
LOGS = STATE / "log"
THRIFTY = {"GOGC": "400"}
"""Of two cores that everything shares, Go's collector takes less where it may leave more lying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process and how it was started."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    ready: str = ""
    """A URL that answers 2xx once it serves. Empty: nobody can tell."""

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def alive(self) -> bool:
        """A killed process may stay a zombie for a while: that is dead too."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] not in "ZX"


def start(
    name: str, argv: Sequence[object], env: Mapping[str, object] | None = None, ready: str = ""
) -> Process:
    """Start a process in a session of its own; it outlives this command."""
    words = [str(word) for word in argv]
    more = {key: str(value) for key, value in (env or {}).items()}
    return launch(Process(name=name, argv=words, env=more, ready=ready))


def launch(wanted: Process) -> Process:
    for folder in (RECORDS, LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    with wanted.log.open("ab") as log:
        child = subprocess.Popen(
            wanted.argv, cwd=STATE, env=os.environ | THRIFTY | wanted.env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    process = Process(**(asdict(wanted) | {"pid": child.pid}))
    (RECORDS / f"{wanted.name}.json").write_text(json.dumps(asdict(process), indent=1))
    return process


def every() -> list[Process]:
    """Everything that was started here, running or not."""
    return [Process(**json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json"))]


def named(name: str) -> Process:
    known = {process.name: process for process in every()}
    if name not in known:
        raise ClusterError(f"no process {name!r}; there are: {', '.join(known) or 'none'}")
    return known[name]


def kill(name: str, number: signal.Signals = signal.SIGKILL, seconds: float = 120) -> Process:
    """Kill a process with its children, and wait until it is gone."""
    process = named(name)
    signal_group(process, number)
    until(f"the end of {name}", lambda: not process.alive, log=process.log, seconds=seconds)
    return process


def signal_group(process: Process, number: signal.Signals) -> None:
    if process.alive:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


def restart(name: str) -> Process:
    """Kill a process if it runs, start it as it was started, and wait until it serves."""
    process = launch(kill(name))
    wait_ready(process)
    return process


def wait_ready(process: Process, seconds: float = 300) -> None:
    if process.ready:
        until(f"{process.name} to serve", lambda: serves(process), log=process.log, seconds=seconds)


def serves(process: Process) -> bool:
    if not process.alive:
        raise ClusterError(f"{process.name} ended at once; read {process.log}")
    return answers(process.ready)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status < 300)
    except (urllib.error.URLError, OSError):
        return False


def until(what: str, done: Callable[[], bool], *, log: Path, seconds: float = 300) -> None:
    """Wait for something, for so long at most."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise ClusterError(f"gave up after {seconds:.0f} s, waiting for {what}; read {log}")
        time.sleep(0.2)
