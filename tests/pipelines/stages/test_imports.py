"""What the processes of stages load. Every pod of every phase pays for it."""

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
    *("transformers", "mlflow", "matplotlib", "pandas", "scipy", "sklearn", "sympy", "openai"),
    *("vllm", "peft", "jinja2", "torch._dynamo", "torch._inductor", "minigrid"),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[str, set[str]]:
    """Modules that are loaded at the end of each stage of a run of one iteration."""
    folder = tmp_path_factory.mktemp("start")
    manifest = yaml.safe_load(corridor_run.WORLD)
    manifest["spec"] |= {
        "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        "rollout": {"tasks": 2, "groupSize": 2, "actions": "admissible", "maxTokensPerTurn": 4},
        "evaluation": {"tasks": 2, "every": 0},
        "storage": {"url": (folder / "store").as_uri()},
        "compute": {"workers": 2, "device": "cpu"},
    }
    found = {}
    for name in ("provision", "train", "expand", "settle"):
        told = ["stage", name, "--manifest", json.dumps(manifest), "--phase", "0"]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *told, "--scratch", str(folder / name)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        found[name] = set(done.stdout.splitlines()[-1].split())
    return found


@pytest.mark.parametrize("name", ["provision", "expand", "settle"])
def test_a_stage_without_the_model_loads_nothing_that_computes(loaded, name):
    assert (MODEL | NEVER) & loaded[name] == set()


def test_a_stage_with_a_model_of_words_loads_torch_and_not_what_is_built_on_it(loaded):
    assert "torch" in loaded["train"]
    assert loaded["train"] & NEVER == set()


def test_workers_come_from_a_process_that_loads_no_more_than_they_need():
    program = "import agentrl_components.workers.preload, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    modules = set(done.stdout.split())
    assert {"torch", "agentrl_components.workers.worker"} <= modules
    assert modules & NEVER == set()


def test_the_process_that_records_loads_what_records():
    program = (
        "import sys; from agentrl_components.tracking.mlflow.light_import import lighten; "
        "lighten('http://mlflow'); from mlflow import MlflowClient; "
        "print(*[name for name, module in sys.modules.items() if module])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    modules = set(done.stdout.split())
    assert "mlflow.tracking.client" in modules
    assert modules & {"pandas", "torch", "mlflow.genai.judges", "mlflow.genai.scorers"} == set()
