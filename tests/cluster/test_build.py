"""Building the programs of the local cluster, with a fake `go`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from started import started

from cluster.settings import HERE

GO = """#!/bin/sh
# `go build ... -o FOLDER/ PACKAGE...`: sleeps, then writes one file per package
echo "$1" >> "$LOG"
test "$1" = build || exit 0
sleep 0.5
while [ "$1" != -o ]; do shift; done
mkdir -p "$2" && touch "$2/server"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    go = tmp_path / "bin/go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{go.parent}:{os.environ['PATH']}",
        "AGENTRL_CLUSTER_BUILD": str(tmp_path / "cache"),
        "LOG": str(tmp_path / "log"),
    }


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Starts a build of some programs."""
    with ExitStack() as stack:

        def start(*programs: str) -> subprocess.Popen[str]:
            command = [sys.executable, str(HERE), "build", *programs]
            build = started(command, env=environment, stderr=subprocess.PIPE)
            return stack.enter_context(build)

        yield start


def test_one_process_builds_and_the_other_uses_the_result(start: Start, tmp_path: Path) -> None:
    builds = [start("etcd") for _ in range(2)]
    outputs = [build.communicate(timeout=300)[0] for build in builds]
    assert [build.returncode for build in builds] == [0, 0]
    assert (tmp_path / "log").read_text() == "build\n"
    assert sum("Building etcd" in output for output in outputs) == 1
    assert (tmp_path / "cache/bin/etcd").exists()


def test_missing_program_is_built_again(start: Start, tmp_path: Path) -> None:
    for _ in range(2):
        build = start("etcd")
        build.communicate(timeout=300)
        assert build.returncode == 0
        (tmp_path / "cache/bin/etcd").unlink()
    assert (tmp_path / "log").read_text() == "build\nbuild\n"


def test_unknown_program_is_refused_with_the_known_ones(start: Start) -> None:
    build = start("etcd", "minikube")
    _, error = build.communicate(timeout=300)
    assert build.returncode == 2
    assert error.startswith("no program minikube; known: kube-apiserver, ")
