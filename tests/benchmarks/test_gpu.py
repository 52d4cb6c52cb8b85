"""The benchmark of GPUs in its form without one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GPU = ROOT / "benchmarks/gpu.py"


def run(out, *options):
    command = [sys.executable, str(GPU), "--out", str(out), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = json.loads(out.read_text())["checks"]
    return ended.returncode, {one["name"]: one for one in checks}


@pytest.mark.slow
def test_all_checks_that_need_no_gpu_pass_on_the_cpu(tmp_path):
    code, found = run(tmp_path / "gpu.json", "--cpu")
    assert {name: one["reason"] for name, one in found.items() if one["status"] == "failed"} == {}
    assert code == 0
    skipped = {name for name, one in found.items() if one["status"] == "skipped"}
    assert skipped - {"vllm_engine", "hand_over"} == {"sleep", "packed_attention"}
    assert found["fsdp_many"]["figures"]["ranks"] == 2
    assert found["fsdp_many"]["figures"]["gradient_difference"] <= 1e-5
