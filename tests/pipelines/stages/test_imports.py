"""Modules that the stages import. Imports delay the start of every pod."""

import json
import subprocess
import sys

import corridor_run
import pytest
import yaml

PROGRAM = """
import sys
from agentrl_pipelines.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules))
"""
MODEL = {"torch", "numpy", "transformers", "tokenizers", "safetensors"}
NEVER = {
    *("transformers", "mlflow", "matplotlib", "pandas", "sklearn", "sympy", "openai", "vllm"),
    # Numba asks the package scipy for its version, which loads none of its parts.
    *("scipy.linalg", "scipy.sparse", "scipy.stats", "scipy.special"),
    *("peft", "jinja2", "torch._dynamo", "torch._inductor", "minigrid"),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[str, set[str]]:
    """The modules loaded at the end of each stage, for a run of one iteration."""
    folder = tmp_path_factory.mktemp("start")
    manifest = yaml.safe_load(corridor_run.HEADER)
    manifest["spec"] |= {
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        "rollout": {"tasks": 2, "groupSize": 2, "actions": "admissible", "maxTokensPerTurn": 4},
        "evaluation": {"tasks": 2, "every": 0},
        "storage": {"url": (folder / "store").as_uri()},
        "compute": {"workers": 2, "device": "cpu"},
    }
    found = {}
    for name in ("provision", "train", "expand", "settle"):
        arguments = ["stage", name, "--manifest", json.dumps(manifest), "--phase", "0"]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments, "--scratch", str(folder / name)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        found[name] = set(done.stdout.splitlines()[-1].split())
    return found


@pytest.mark.parametrize("name", ["provision", "expand", "settle"])
def test_stages_without_a_model_do_not_load_torch(loaded, name):
    assert (MODEL | NEVER) & loaded[name] == set()


def test_training_the_built_in_model_loads_torch_but_not_transformers(loaded):
    assert "torch" in loaded["train"]
    assert loaded["train"] & NEVER == set()


def test_the_fork_server_preloads_no_more_than_workers_need():
    program = "import agentrl_components.workers.preload, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    modules = set(done.stdout.split())
    assert {"torch", "agentrl_components.workers.worker"} <= modules
    assert modules & NEVER == set()


def test_the_mlflow_process_loads_no_more_than_recording_needs():
    program = (
        "import sys; from agentrl_components.tracking.mlflow.light_import import lighten_import; "
        "lighten_import('http://mlflow'); from mlflow import MlflowClient; "
        "print(*[name for name, module in sys.modules.items() if module])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    modules = set(done.stdout.split())
    assert "mlflow.tracking.client" in modules
    assert modules & {"pandas", "torch", "mlflow.genai.judges", "mlflow.genai.scorers"} == set()
