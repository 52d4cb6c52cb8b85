"""A process that serves an environment, and what it and all that it has started use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from shutil import copyfileobj
from threading import Thread

import psutil

SERVE = "from agentrl_pipelines.cli.env_commands.group import envs; envs()"


@contextmanager
def server(
    name: str, *, workers: int, capacity: int, options: Mapping[str, str] | None = None
) -> Iterator[tuple[str, int]]:
    """Run a server process. Yields its URL and process id. Ends this process with the server's
    message if it does not start."""
    flags = ["--port", "0", "--workers", str(workers), "--capacity", str(capacity)]
    for option, value in (options or {}).items():
        flags += ["--options", f"{option}={value}"]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", name, *flags], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    address = re.search(r"http://[^\s,]+", said)
    if address is None:
        raise SystemExit(said + process.communicate()[1])
    url = address[0]
    # A pipe that nobody reads is full after 64 KiB of messages, and then blocks the server.
    Thread(target=copyfileobj, args=(process.stderr, sys.stderr), daemon=True).start()
    try:
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(timeout=120)  # calls that have begun end first


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and all its descendants that run."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def resident_kib(pid: int) -> int:
    """Resident memory of a process and its descendants in KiB."""
    total = 0
    for each in process_tree(pid):
        with suppress(psutil.NoSuchProcess):
            total += each.memory_info().rss
    return total // 1024


def processor_s(pid: int) -> float:
    """Processor seconds of a process and its running descendants."""
    total = 0.0
    for each in process_tree(pid):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system
    return total
