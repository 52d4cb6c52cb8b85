"""The processes of the local cluster: started, killed and restarted by name, each with a log.

    start("minio", ["minio", "server", ...], ready="http://10.244.0.1:9000/minio/health/live")

Each start is recorded in the state folder, so that a later command can restart the process with the
same arguments.
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

from cluster.settings import STATE, ClusterError

RECORDS = STATE / "processes"
LOGS = STATE / "log"
LESS_COLLECTION = {"GOGC": "400"}
"""Go collects garbage less often: all processes share two cores, while memory is plentiful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, and how to start it."""

    name: str
    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    born: int = 0
    """Start time in clock ticks since boot; it tells the process from a later one with its pid."""
    ready: str = ""
    """URL that answers 2xx once the process serves; empty if it has none."""

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def alive(self) -> bool:
        leader = Path(f"/proc/{self.pid}")
        found = stat(leader)
        return found is not None and found.born == self.born and has_live_thread(leader)

    def group(self) -> list[int]:
        """Pids of the process and its children that are still alive."""
        leader = stat(Path(f"/proc/{self.pid}"))
        if leader and leader.born != self.born:
            return []
        return [
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if (found := stat(path)) and found.group == self.pid and has_live_thread(path)
        ]


class Stat(NamedTuple):
    """State, process group and start time of a process or thread, from /proc."""

    state: str
    group: int
    born: int


def stat(path: Path) -> Stat | None:
    """Read PATH/stat; None if the process is gone."""
    try:
        words = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Stat(words[0], int(words[2]), int(words[19]))


def has_live_thread(path: Path) -> bool:
    """Whether any thread of a process is neither a zombie nor dead.

    After SIGKILL the first thread may be a zombie while another still waits for the disk and holds
    the port. A process that nobody reaps stays a zombie.
    """
    threads = (stat(thread) for thread in (path / "task").glob("[0-9]*"))
    return any(thread.state not in "ZX" for thread in threads if thread)


def start(
    name: str, argv: Sequence[object], env: Mapping[str, object] | None = None, ready: str = ""
) -> Process:
    """Start a process in a new session, so that it outlives this command."""
    words = [str(word) for word in argv]
    more = {key: str(value) for key, value in (env or {}).items()}
    return launch(Process(name=name, argv=words, env=more, ready=ready))


def launch(wanted: Process, state: Path = STATE) -> Process:
    """Start a process with `state` as its working folder, and record it there."""
    records, logs = (state / path.relative_to(STATE) for path in (RECORDS, LOGS))
    for folder in (records, logs):
        folder.mkdir(parents=True, exist_ok=True)
    with (logs / wanted.log.name).open("ab") as log:
        child = subprocess.Popen(
            wanted.argv, cwd=state, env=os.environ | LESS_COLLECTION | wanted.env,
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    own = stat(Path(f"/proc/{child.pid}"))
    process = Process(**(asdict(wanted) | {"pid": child.pid, "born": own.born if own else 0}))
    (records / f"{wanted.name}.json").write_text(json.dumps(asdict(process), indent=1))
    return process


def recorded() -> list[Process]:
    """Every process that was started, running or not."""
    return [Process(**json.loads(path.read_text())) for path in sorted(RECORDS.glob("*.json"))]


def is_alive(name: str) -> bool:
    """Whether a process with this name was started and is alive."""
    return any(process.name == name and process.alive for process in recorded())


def find(name: str) -> Process:
    """The process of that name. Raises ClusterError listing the known names if there is none."""
    known = {process.name: process for process in recorded()}
    if name not in known:
        raise ClusterError(f"no process {name!r}; known: {', '.join(known) or 'none'}")
    return known[name]


def kill(name: str, number: signal.Signals = signal.SIGKILL, seconds: float = 600) -> Process:
    """Kill a process with its children, and wait until they are gone."""
    process = find(name)
    signal_group(process, number)
    wait_until(f"{name} to exit", lambda: not process.group(), log=process.log, seconds=seconds)
    return process


def signal_group(process: Process, number: signal.Signals) -> None:
    if process.group():
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return


def restart(name: str) -> Process:
    """Kill a process if it runs, start it with the same arguments, and wait until it serves."""
    process = launch(kill(name))
    wait_ready(process)
    return process


def wait_ready(process: Process, seconds: float = 300) -> None:
    if process.ready:
        wait_until(
            f"{process.name} to serve", lambda: serves(process), log=process.log, seconds=seconds
        )


def serves(process: Process) -> bool:
    if not process.alive:
        raise ClusterError(f"{process.name} exited at its start; read {process.log}")
    return answers(process.ready)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status < 300)
    except (urllib.error.URLError, OSError):
        return False


def wait_until(what: str, done: Callable[[], bool], *, log: Path, seconds: float = 300) -> None:
    """Poll `done` until it is true. Raises ClusterError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise ClusterError(f"timed out after {seconds:.0f} s waiting for {what}; read {log}")
        time.sleep(0.2)
