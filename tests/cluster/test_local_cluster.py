"""The local cluster runs a pipeline of three steps.

Skipped if it is not running: `make cluster` starts it unless another cluster is selected.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.settings import STATE

pytestmark = [
    pytest.mark.cluster,
    # importing kfp raises these
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]

KFP = "http://10.244.0.1:8888"

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


@pytest.fixture(scope="module", autouse=True)
def require_local_cluster() -> None:
    if not (STATE / "up").exists():
        pytest.skip("the local cluster is not running")


def test_compiled_pipeline_of_three_steps_succeeds(tmp_path: Path) -> None:
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
