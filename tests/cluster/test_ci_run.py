"""`.ci/run`, with fake programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from started import started

from cluster.settings import REPOSITORY

MAKE = """#!/bin/sh
words="$*"
echo "make ${words%% --*}" >> "$LOG"
test "$1" != "$HANGS" || sleep 600
test "$1" != "$FAILS" || { echo "make $1 failed" >&2; exit 1; }
"""
AGENTRL = """#!/bin/sh
test "$1" != metrics || seq 12
"""
NO_OP = """#!/bin/sh
"""
PROGRAMS = "Java and Chromium"
ALONE = ["make test", "make test-slow TESTS=tests"]
COMPUTING = (
    "make test-slow TESTS=tests/learning tests/benchmarks tests/envs "
    "tests/components/engines tests/components/sharded tests/components/stages"
)
BESIDE = ["make check docs", "make e2e", COMPUTING]
"""Targets that run while the tests on the cluster do."""
CHECKS = "check, docs, demo, learning"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with only the script and fakes of the programs that it calls."""
    for name, content in (
        ("bin/make", MAKE),
        ("bin/python3", NO_OP),
        ("bin/go", NO_OP),
        ("bin/apt-get", NO_OP),
        ("bin/id", "#!/bin/sh\necho 0\n"),
        (".venv/bin/agentrl", AGENTRL),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", tmp_path / ".ci/run")
    return tmp_path


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(checkout: Path) -> Iterator[Start]:
    """Starts the script with some environment variables."""
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    defaults = {"PATH": path, "LOG": str(checkout / "log"), "HANGS": "", "FAILS": ""}
    with ExitStack() as stack:

        def start(**environment: str) -> subprocess.Popen[str]:
            env = {**os.environ, **defaults, **environment}
            return stack.enter_context(started([checkout / ".ci/run"], env=env))

        yield start


def calls(checkout: Path) -> list[str]:
    """Targets that were passed to make."""
    return (checkout / "log").read_text().splitlines()


def table(output: str) -> list[str]:
    """Step names in the table at the end of the output."""
    rows = output.rpartition("\nStep ")[2].splitlines()[1:]
    return [re.sub(r" +\d+$", "", row) for row in rows]


def test_all_steps_run_and_the_cluster_is_stopped(checkout: Path, start: Start) -> None:
    run = start()
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    first, others, last = calls(checkout)[:2], calls(checkout)[2:-1], calls(checkout)[-1]
    assert first == ALONE
    assert sorted(others) == BESIDE
    assert last == "make cluster-down"
    assert table(output) == [PROGRAMS, "make test", "make test-slow", "make e2e", CHECKS, "Total"]


def test_first_failure_ends_the_run(checkout: Path, start: Start) -> None:
    run = start(FAILS="test-slow")
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 1
    assert calls(checkout) == ALONE
    assert table(output) == [PROGRAMS, "make test", "make test-slow: FAILED", "Total"]


def test_a_failure_beside_the_cluster_fails_the_run_and_is_shown(
    checkout: Path, start: Start
) -> None:
    run = start(FAILS="check")
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 1
    assert "Beside the tests on the cluster:\nmake check failed\n" in output
    assert table(output)[-2:] == [f"{CHECKS}: FAILED", "Total"]
    assert calls(checkout)[-1] == "make cluster-down"
    assert COMPUTING not in calls(checkout)


def test_without_a_cluster_all_other_steps_run_in_turn(checkout: Path, start: Start) -> None:
    (checkout / "bin/id").write_text("#!/bin/sh\necho 1000\n")
    run = start()
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    assert calls(checkout) == [*ALONE, BESIDE[0], BESIDE[2]]
    assert table(output) == ["make test", "make test-slow", CHECKS, "Total"]


def test_cluster_is_stopped_after_a_failure(checkout: Path, start: Start) -> None:
    run = start(FAILS="e2e")
    run.communicate(timeout=300)
    assert run.returncode == 1
    assert calls(checkout)[-1] == "make cluster-down"


def test_failure_to_stop_the_cluster_fails_the_run(checkout: Path, start: Start) -> None:
    run = start(FAILS="cluster-down")
    run.communicate(timeout=300)
    assert run.returncode == 1


def test_signal_ends_the_step_and_stops_the_cluster(checkout: Path, start: Start) -> None:
    run = start(HANGS="e2e")
    deadline = time.monotonic() + 300
    while not (checkout / "log").exists() or "make e2e" not in calls(checkout):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 143
    assert calls(checkout)[-1] == "make cluster-down"
    assert table(output)[-2:] == ["make e2e: FAILED", "Total"]
