"""A process is alive until its last thread ends; its orphaned children stay in its group."""

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
    # the started processes must outlive the Popen objects that started them
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# The exit system call ends only the calling thread. The kernel also ends the threads of a killed
# process one by one; here the second thread keeps listening, like a thread blocked on disk I/O.
FIRST_THREAD_EXITS = """
import ctypes, socket, threading, time
listening = socket.create_server(("127.0.0.1", 0))
def second_thread():
    time.sleep(0.2)
    print(listening.getsockname()[1], flush=True)
    time.sleep(600)
threading.Thread(target=second_thread).start()
ctypes.CDLL(None).syscall(60, 0)
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    processes: list[Process] = []

    def start(program: str) -> Process:
        process = Process(name="tried", argv=[sys.executable, "-c", program])
        processes.append(launch(process, tmp_path))
        return processes[-1]

    yield start
    for process in processes:
        signal_group(process, signal.SIGKILL)


def printed_number(process: Process, folder: Path) -> int:
    """Wait for the number that the process prints."""
    return int(until(lambda: (folder / "log/tried.log").read_text().strip()))


def until(ready: Callable[[], str]) -> str:
    """Poll `ready` until its result is not empty, and return that."""
    deadline = time.monotonic() + 300
    while not (answer := ready()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def test_process_is_alive_until_its_last_thread_ends(
    start_process: Callable[[str], Process], tmp_path: Path
) -> None:
    process = start_process(FIRST_THREAD_EXITS)
    port = printed_number(process, tmp_path)
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: "exited" if stat.read_text().rpartition(")")[2].split()[0] == "Z" else "")
    assert process.alive
    socket.create_connection(("127.0.0.1", port)).close()
    signal_group(process, signal.SIGKILL)
    until(lambda: "" if process.group() else "gone")
    assert not process.alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_orphaned_child_stays_in_the_process_group(
    start_process: Callable[[str], Process], tmp_path: Path
) -> None:
    process = start_process(PARENT)
    child = printed_number(process, tmp_path)
    until(lambda: "" if process.alive else "ended")
    assert process.group() == [child]


def test_process_that_reuses_a_pid_is_not_signalled(
    start_process: Callable[[str], Process], tmp_path: Path
) -> None:
    process = start_process("import time; time.sleep(600)")
    earlier = replace(process, born=process.born - 1)
    assert process.alive
    assert not earlier.alive
    signal_group(earlier, signal.SIGKILL)
    assert process.group() == [process.pid]
