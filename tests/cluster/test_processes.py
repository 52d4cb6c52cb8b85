"""A process is gone when all of it is: what it listened on is free then, and no sooner."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.processes import Process, launch, signal_group

pytestmark = [
    # what is started is to outlive who started it
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# The exit system call ends one thread, as the kernel ends the threads of a killed process one by
# one; the other listens on, as one does that waits for the disk.
HEADLESS = """
import ctypes, socket, threading, time
listening = socket.create_server(("127.0.0.1", 0))
def last():
    time.sleep(0.2)
    print(listening.getsockname()[1], flush=True)
    time.sleep(600)
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(60, 0)
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    there: list[Process] = []

    def start(program: str) -> Process:
        wanted = Process(name="tried", argv=[sys.executable, "-c", program])
        there.append(launch(wanted, tmp_path))
        return there[-1]

    yield start
    for process in there:
        signal_group(process, signal.SIGKILL)


def said(process: Process, folder: Path) -> int:
    """The number it prints."""
    return int(until(lambda: (folder / "log/tried.log").read_text().strip()))


def until(ready: Callable[[], str]) -> str:
    deadline = time.monotonic() + 300
    while not (answer := ready()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def test_a_process_whose_first_thread_has_ended_is_alive_until_the_last_has(
    started: Callable[[str], Process], tmp_path: Path
) -> None:
    process = started(HEADLESS)
    port = said(process, tmp_path)
    assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    assert process.alive
    socket.create_connection(("127.0.0.1", port)).close()
    signal_group(process, signal.SIGKILL)
    until(lambda: "" if process.group() else "gone")
    assert not process.alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_a_process_leaves_behind_belongs_to_it(
    started: Callable[[str], Process], tmp_path: Path
) -> None:
    process = started(PARENT)
    child = said(process, tmp_path)
    until(lambda: "" if process.alive else "ended")
    assert process.group() == [child]


def test_a_process_that_got_the_number_of_an_earlier_one_is_let_alone(
    started: Callable[[str], Process], tmp_path: Path
) -> None:
    process = started("import time; time.sleep(600)")
    earlier = replace(process, born=process.born - 1)
    assert process.alive
    assert not earlier.alive
    signal_group(earlier, signal.SIGKILL)
    assert process.group() == [process.pid]
