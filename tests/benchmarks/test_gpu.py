"""The benchmark of GPUs in its form without one."""

import json
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from spawned_processes import has_ended
from started import started

ROOT = Path(__file__).parents[2]
GPU = ROOT / "benchmarks/gpu.py"


def run(out, *options):
    command = [sys.executable, str(GPU), "--out", str(out), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = json.loads(out.read_text())["checks"]
    return ended.returncode, {one["name"]: one for one in checks}


ON_RAY = ("run_on_ray", "shared_gpus")
"""Checks that have time of their own here: they start Ray and vLLM."""


@pytest.mark.nightly
def test_all_checks_that_need_no_gpu_pass_on_the_cpu(tmp_path):
    code, found = run(tmp_path / "gpu.json", "--cpu", "--without", ",".join(ON_RAY))
    assert {name: one["reason"] for name, one in found.items() if one["status"] == "failed"} == {}
    assert code == 0
    skipped = {name for name, one in found.items() if one["status"] == "skipped"}
    on_v1 = {"vllm_engine_v1", "interrupts_v1", "rollout_v1", "sleep_v1"}
    assert skipped - {"vllm_engine", "interrupts", "hand_over"} == {
        "packed_attention",
        "kernels",
        "changes",
        "sparse_on_ray",
        "mfu_65k_episode",
        "sleep",
        *on_v1,
    }
    assert found["fsdp_many"]["figures"]["ranks"] == 2
    assert found["fsdp_many"]["figures"]["gradient_difference"] <= 1e-5


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.parametrize("check", [ON_RAY[0], pytest.param(ON_RAY[1], marks=pytest.mark.nightly)])
def test_samplers_on_ray_have_the_trainers_weights_in_each_iteration(tmp_path, check):
    code, found = run(tmp_path / "gpu.json", "--cpu", "--only", check)
    outcome = found[check]
    assert (code, outcome["reason"]) == (0, "" if find_spec("vllm") else "vllm is not installed")
    if outcome["status"] == "ok":
        assert len(outcome["figures"]["mismatch_kl"]) == 3
        assert max(outcome["figures"]["mismatch_kl"]) < 1e-6  # float32
        assert not outcome["figures"]["over_nccl"]


def test_a_check_ends_with_the_process_that_started_it(tmp_path):
    out = tmp_path / "gpu.json"
    command = [sys.executable, str(GPU), "--cpu", "--only", "device,fsdp_one", "--out", str(out)]
    with started(command) as checks:
        assert checks.stdout is not None
        assert checks.stdout.readline().startswith("ok         device")
        (check,) = children(checks)
        checks.terminate()
        assert checks.wait(timeout=30) == 128 + signal.SIGTERM
        assert has_ended(check.pid)
    assert [one["name"] for one in json.loads(out.read_text())["checks"]] == ["device"]


def test_checks_without_time_are_unfinished_and_named_with_the_command_for_them(tmp_path):
    out = tmp_path / "gpu.json"
    options = ["--cpu", "--only", "device,fsdp_one", "--seconds", "1", "--out", str(out)]
    command = [sys.executable, str(GPU), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    checks = json.loads(out.read_text())["checks"]
    assert [one["status"] for one in checks] == ["unfinished", "unfinished"]
    assert ended.stdout.endswith("for the rest: benchmarks/gpu.py --only device,fsdp_one\n")


def children(checks: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The check that is under way. It begins right after the line of the one before."""
    ends = time.monotonic() + 30
    while not (found := psutil.Process(checks.pid).children()) and time.monotonic() < ends:
        time.sleep(0.01)
    return found


TRACEBACK = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "gpu.py", line 1, in <module>
[rank0]: agentrl_components.errors.EngineError: vLLM cannot start
[rank0]:[W1124 20:48:00 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group() was not called
"""


@pytest.mark.parametrize(
    ("code", "errors", "reason"),
    [
        (1, TRACEBACK, "agentrl_components.errors.EngineError: vLLM cannot start"),
        (1, "Traceback:\nAssertionError: 3 > 2\n", "AssertionError: 3 > 2"),
        (-6, "loading\nterminate called\n\n", "terminate called"),
        (-11, "", "ended with code -11"),
    ],
)
def test_the_reason_of_a_failed_check_is_its_exception(code, errors, reason, monkeypatch):
    monkeypatch.syspath_prepend(GPU.parent)
    outcome = import_module("gpu_checks.outcome").outcome_of(
        "sleep", code, '{"figures": {}}\n', errors
    )
    assert (outcome.status, outcome.reason) == ("failed", reason)
