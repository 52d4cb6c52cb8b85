"""The cluster of cluster.py itself: a pipeline of three steps runs on it, and a process comes back.

Skipped where it is not up: `make cluster` starts it where no other is to be had.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cluster,
    # of kfp's own imports
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
STATE = Path(os.environ.get("STATE") or CACHE / "cluster-state")
KFP = "http://10.244.0.1:8888"
CLUSTER = Path(__file__).parent / "cluster.py"

PIPELINE = """
import sys
from kfp import compiler, dsl

@dsl.container_component
def step(word: str, said: dsl.OutputPath(str)):
    return dsl.ContainerSpec(
        image="docker.io/local/busybox:1",
        command=["/bin/sh", "-c", 'mkdir -p "$(dirname "$1")" && printf "%s." "$0" > "$1"'],
        args=[word, said],
    )

@dsl.pipeline(name="smoke")
def smoke(word: str = "a"):
    first = step(word=word).set_caching_options(False)
    second = step(word=first.outputs["said"]).set_caching_options(False)
    step(word=second.outputs["said"]).set_caching_options(False)

compiler.Compiler().compile(smoke, sys.argv[1])
"""


def cluster(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, CLUSTER, *words], capture_output=True, text=True, timeout=960, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def up() -> None:
    if not (STATE / "up").exists():
        pytest.skip("the cluster of cluster.py is not up: these tests are of that one")


def test_a_compiled_pipeline_of_three_steps_succeeds(tmp_path: Path) -> None:
    import kfp

    package = tmp_path / "smoke.yaml"
    subprocess.run([sys.executable, "-c", PIPELINE, str(package)], check=True, timeout=300)
    client = kfp.Client(host=KFP)
    run = client.create_run_from_pipeline_package(
        str(package), arguments={"word": "b"}, run_name="smoke", enable_caching=False
    )
    deadline = time.monotonic() + 900
    while (state := client.get_run(run.run_id).state) not in ("SUCCEEDED", "FAILED", "CANCELED"):
        assert time.monotonic() < deadline, f"still {state}"
        time.sleep(1)
    assert state == "SUCCEEDED"


def test_a_killed_process_is_started_again_as_it_was() -> None:
    cluster("kill", "minio")
    try:
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen("http://10.244.0.1:9000/minio/health/live", timeout=60)
    finally:  # all tests after this one need it
        cluster("restart", "minio")
    with urllib.request.urlopen("http://10.244.0.1:9000/minio/health/live", timeout=60) as answer:
        assert answer.status == 200
