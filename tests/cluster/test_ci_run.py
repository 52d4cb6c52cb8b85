"""`.ci/run`, with fake programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.settings import REPOSITORY

MAKE = """#!/bin/sh
words="$*"
echo "make ${words%% --*}" >> "$LOG"
test "$1" != "$HANGS" || sleep 600
test "$1" != "$FAILS"
"""
AGENTRL = """#!/bin/sh
test "$1" != metrics || seq 12
"""
NO_OP = """#!/bin/sh
"""
PROGRAMS = "Java and Chromium"
STEPS = ["make test", "make check docs", "make test-slow", "make e2e"]


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


def start(checkout: Path, **environment: str) -> subprocess.Popen[str]:
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    defaults = {"PATH": path, "LOG": str(checkout / "log"), "HANGS": "", "FAILS": ""}
    return subprocess.Popen(
        [checkout / ".ci/run"],
        env={**os.environ, **defaults, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def calls(checkout: Path) -> list[str]:
    """Targets that were passed to make."""
    return (checkout / "log").read_text().splitlines()


def table(output: str) -> list[str]:
    """Step names in the table at the end of the output."""
    rows = output.rpartition("\nStep ")[2].splitlines()[1:]
    return [re.sub(r" +\d+$", "", row) for row in rows]


def test_all_steps_run_and_the_cluster_is_stopped(checkout: Path) -> None:
    run = start(checkout)
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    assert calls(checkout) == [*STEPS, "make cluster-down"]
    assert table(output) == [PROGRAMS, *STEPS[:2], "short demo", *STEPS[2:], "Total"]


def test_first_failure_ends_the_run(checkout: Path) -> None:
    run = start(checkout, FAILS="check")
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 1
    assert calls(checkout) == STEPS[:2]
    assert table(output) == [PROGRAMS, "make test", "make check docs: FAILED", "Total"]


def test_cluster_is_stopped_after_a_failure(checkout: Path) -> None:
    run = start(checkout, FAILS="e2e")
    run.communicate(timeout=300)
    assert run.returncode == 1
    assert calls(checkout)[-1] == "make cluster-down"


def test_failure_to_stop_the_cluster_fails_the_run(checkout: Path) -> None:
    run = start(checkout, FAILS="cluster-down")
    run.communicate(timeout=300)
    assert run.returncode == 1


def test_signal_ends_the_step_and_stops_the_cluster(checkout: Path) -> None:
    run = start(checkout, HANGS="e2e")
    deadline = time.monotonic() + 300
    while not (checkout / "log").exists() or "make e2e" not in calls(checkout):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 143
    assert calls(checkout)[-1] == "make cluster-down"
    assert table(output)[-2:] == ["make e2e: FAILED", "Total"]
