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
from typing import NamedTuple

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
    born: int = 0
    """In ticks since the machine started: another process may have that number now."""
    ready: str = ""
    """A URL that answers 2xx once it serves. Empty: nobody can tell."""

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def alive(self) -> bool:
        leader = Path(f"/proc/{self.pid}")
        found = stat(leader)
        return found is not None and found.born == self.born and runs(leader)

    def group(self) -> list[int]:
        """It and its children, as far as they are alive."""
        leader = stat(Path(f"/proc/{self.pid}"))
        if leader and leader.born != self.born:
            return []
        return [int(path.name) for path in Path("/proc").glob("[0-9]*")
                if (found := stat(path)) and found.group == self.pid and runs(path)]  # fmt: skip


class Stat(NamedTuple):
    """What the kernel tells of a process, or of a thread."""

    state: str
    group: int
    born: int


def stat(path: Path) -> Stat | None:
    """None: it is gone."""
    try:
        words = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Stat(words[0], int(words[2]), int(words[19]))


def runs(path: Path) -> bool:
    """Whether any thread of it does. The first of a killed process may be a zombie while another
    still waits for the disk, and holds the port so long; one that nobody reaps stays a zombie."""
    threads = (stat(thread) for thread in (path / "task").glob("[0-9]*"))
    return any(thread.state not in "ZX" for thread in threads if thread)


def start(
    name: str, argv: Sequence[object], env: Mapping[str, object] | None = None, ready: str = ""
) -> Process:
    """Start a process in a session of its own; it outlives this command."""
    words = [str(word) for word in argv]
    more = {key: str(value) for key, value in (env or {}).items()}
    return launch(Process(name=name, argv=words, env=more, ready=ready))


def launch(wanted: Process, state: Path = STATE) -> Process:
    """Start it as it is written down, and write that down beneath `state`, where it runs."""
    records, logs = (state / path.relative_to(STATE) for path in (RECORDS, LOGS))
    for folder in (records, logs):
        folder.mkdir(parents=True, exist_ok=True)
    with (logs / wanted.log.name).open("ab") as log:
        child = subprocess.Popen(
            wanted.argv, cwd=state, env=os.environ | THRIFTY | wanted.env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    own = stat(Path(f"/proc/{child.pid}"))
    process = Process(**(asdict(wanted) | {"pid": child.pid, "born": own.born if own else 0}))
    (records / f"{wanted.name}.json").write_text(json.dumps(asdict(process), indent=1))
    return process


def every() -> list[Process]:
    """Everything that was started here, running or not."""
    return [Process(**json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json"))]


def named(name: str) -> Process:
    known = {process.name: process for process in every()}
    if name not in known:
        raise ClusterError(f"no process {name!r}; there are: {', '.join(known) or 'none'}")
    return known[name]


def kill(name: str, number: signal.Signals = signal.SIGKILL, seconds: float = 600) -> Process:
    """Kill a process with its children, and wait until it is gone."""
    process = named(name)
    signal_group(process, number)
    until(f"the end of {name}", lambda: not process.group(), log=process.log, seconds=seconds)
    return process


def signal_group(process: Process, number: signal.Signals) -> None:
    if process.group():
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
