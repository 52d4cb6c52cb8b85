"""Tests of `VllmEngine` with vLLM's model runner V2, in a process of their own: vLLM and Triton
read their settings when they are imported. All but one of `test_engine.py` pass there:

    VLLM_USE_V2_MODEL_RUNNER=1 PYTHONPATH=tests/components/small_models .venv/bin/pytest \
      -p triton_on_cpu -k "not top_p" tests/components/engines/vllm_engine/test_engine.py

Triton's interpreter fails in vLLM's kernel for top-p.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs_vllm import NEEDS_VLLM

pytestmark = NEEDS_VLLM
HERE = Path(__file__).parent
CHOSEN = "model_runner or transformers or admissible or torch_engine or prefix_cache or go_on"
"""What depends on the runner. A step of the interpreter takes 0.1 s."""
LONG = "frequencies"
"""A test of 400 replies."""


@pytest.mark.nightly
def test_the_engine_gives_the_same_with_model_runner_v2():
    files = [HERE / "test_engine.py", HERE / "test_adapter_updates.py"]
    command = [sys.executable, "-m", "pytest", "-p", "triton_on_cpu", "-n", "0", "-m", ""]
    chosen = ["-k", f"({CHOSEN}) and not {LONG}"]
    folders = os.pathsep.join([str(HERE.parents[1] / "small_models"), *sys.path])
    env = {"VLLM_USE_V2_MODEL_RUNNER": "1", "PYTHONPATH": folders}
    ended = subprocess.run(
        [*command, *chosen, *map(str, files)],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
