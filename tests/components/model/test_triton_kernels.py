"""The kernels for GPUs, computed by Triton's interpreter in a process of its own: Triton reads that
setting when it is imported. `benchmarks/gpu.py` runs them on a GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_kernels_for_gpus_compute_what_torch_does():
    files = sorted(HERE.glob("interpreted/*_cases.py"))
    assert len(files) == 2
    command = [sys.executable, "-m", "pytest", "-q", "-p", "triton_on_cpu", "-n", "0"]
    ended = subprocess.run(
        [*command, *map(str, files)],
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "14 passed" in ended.stdout
