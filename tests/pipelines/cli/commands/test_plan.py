from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from free_ports import silent_port

from agentrl_pipelines.cli.commands.plan import plan

MANIFEST = """
apiVersion: agentrl.dev/v1alpha1
kind: AgentRLRun
metadata: {name: large}
spec:
  model: {source: "models:/agent/1", dtype: bfloat16, context: 8192}
  environments: [{name: rooms, builtin: babyai, options: {text: agentgym}}]
  rollout: {tasks: 32, groupSize: 8}
  horizon: {phases: [{maxTurns: 10, iterations: 20}]}
"""

QWEN_7B = {
    "model_type": "qwen2",
    "vocab_size": 152_064,
    "hidden_size": 3584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "use_sliding_window": False,
}


def _plan(folder: Path, *arguments: str) -> Result:
    (folder / "run.yaml").write_text(MANIFEST)
    (folder / "config.json").write_text(json.dumps(QWEN_7B))
    return CliRunner().invoke(plan, [str(folder / "run.yaml"), *arguments])


def test_a_run_that_does_not_fit_is_refused_with_the_field_to_change(tmp_path):
    done = _plan(tmp_path, "--config", str(tmp_path))
    assert done.exit_code == 2
    assert "7.62 B parameters; 1 x h100: trainer and engine share it" in done.stdout
    assert "spec.compute.trainers.count: a trainer needs" in done.stdout


def test_a_run_that_fits_says_so_and_exits_with_0(tmp_path):
    changes = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    done = _plan(tmp_path, *changes)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("It fits.\n")


def test_the_plan_as_json_has_bytes_seconds_and_problems(tmp_path):
    done = _plan(tmp_path, "--config", str(tmp_path), "-o", "json")
    data = json.loads(done.stdout)
    assert data["model"]["parameters"] == 7_615_616_512
    assert data["checkpointBytes"] == 14 * 7_615_616_512
    assert data["phases"][0]["seconds"]["update"] > 0
    assert data["problems"][0]["field"] == "spec.compute.trainers.count"


@pytest.mark.parametrize("option", ["--turn-seconds", "--trained-tokens", "--sampled-tokens"])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-1"])
def test_a_number_that_is_not_finite_is_refused_with_the_option(tmp_path, option, number):
    done = _plan(tmp_path, f"{option}={number}", "-o", "json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Invalid value for '{option}'" in done.stderr


@pytest.mark.parametrize("given", ["--turn-seconds=1e308", "--sampled-tokens=1e-320"])
def test_a_number_that_makes_the_time_infinite_is_refused(tmp_path, given):
    done = _plan(tmp_path, given, "-o", "json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is not in the range" in done.stderr


TINY = ("--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s")


def test_a_time_below_an_hour_is_printed_in_minutes(tmp_path):
    shown = _plan(tmp_path, *TINY).stdout
    minutes = float(shown.partition("Time: at most ")[2].partition(" minutes")[0])
    assert minutes > 0
    assert "hours" not in shown
    assert shown.count("minutes") == 2  # in the title and over the column


@pytest.mark.parametrize("columns", [80, 40])
def test_no_digit_of_the_times_is_cut_off(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    more = ("rollout.tasks=65536", "horizon.phases[0].iterations=1000000")
    changes = [part for each in more for part in ("--set", each)]
    shown = _plan(tmp_path, *TINY, *changes).stdout.partition("Time:")[2].partition("Check")[0]
    assert "…" not in shown
    assert ("1,000,000 " in shown) == (columns == 80)


def test_on_the_processor_the_time_needs_stated_throughputs(tmp_path):
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "cpu"]
    assert "Time: not estimated" in _plan(tmp_path, *tiny).stdout
    stated = ["--trained-tokens", "20000", "--sampled-tokens", "10000"]
    assert "Time: at most" in _plan(tmp_path, *tiny, *stated).stdout


def test_on_the_processor_trainers_and_engines_are_counted_together(tmp_path):
    on_ray = ["--set", "compute={ray: embedded, trainers: {count: 3}, samplers: {count: 1}}"]
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "cpu"]
    done = _plan(tmp_path, *tiny, *on_ray)
    assert "; trainers and engines share this machine's" in done.stdout
    assert "Memory: 3 trainers x " in done.stdout
    assert ", 1 engine x " in done.stdout
    assert " GiB and 1.5 GiB for the rest of the run: " in done.stdout
    data = json.loads(_plan(tmp_path, *tiny, *on_ray, "-o", "json").stdout)
    trainers, engines = 3 * data["trainerBytes"]["total"], data["engineBytes"]["total"]
    assert data["machineBytes"] == trainers + engines + (3 << 29)
    assert data["devices"]["count"] == 1


def test_too_few_environment_servers_are_a_warning_beside_a_run_that_fits(tmp_path):
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    more = ["--set", "rollout.tasks=100", "--set", "rollout.concurrency=800"]
    done = _plan(tmp_path, *tiny, *more)
    assert done.exit_code == 0, done.output
    assert "warning: spec.environments[0].replicas: is 1; on Kubernetes servers" in done.stdout
    assert done.stdout.endswith("It fits.\n")
    (warning,) = json.loads(_plan(tmp_path, *tiny, *more, "-o", "json").stdout)["warnings"]
    assert warning["fix"] == "set it to 4, or lower rollout.concurrency"


def test_pods_on_kubernetes_are_counted_with_their_requests(tmp_path):
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    done = _plan(tmp_path, *tiny, "--set", "compute.cpu=1500m")
    # The stage that trains, and a server of the environment.
    assert "On Kubernetes: 2 pods, with 1.75 CPUs and 2.2 GiB." in done.stdout


def test_pods_of_a_ray_cluster_are_a_table_with_their_sums(tmp_path):
    on_ray = (
        "compute={ray: cluster, trainers: {count: 4, gpus: 1, cpu: 500m, memory: 3Gi, perPod: 2}}"
    )
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    done = _plan(tmp_path, *tiny, "--set", on_ray)
    rows = [line.split() for line in done.stdout.partition("Pods on Kubernetes")[2].splitlines()]
    # The disk of a pod is 2 GiB and the few MiB of the model.
    assert ["ray-trainers", "2", "1", "6.00", "2", "2.00"] in rows
    assert ["ray-samplers", "1", "1", "2.00", "2.00"] in rows
    # Stage 1 CPU and 2 GiB, head 0.5 and 2, server 0.25 and 0.25.
    assert ["sum", "6", "4.75", "18.25", "4", "6.01"] in rows
    pods = json.loads(_plan(tmp_path, *tiny, "--set", on_ray, "-o", "json").stdout)["pods"]
    assert pods[2] == {
        "name": "ray-trainers",
        "count": 2,
        "requests": {"cpu": "1000m", "memory": "6Gi", "nvidia.com/gpu": "2"},
    }


def test_checkpoints_of_a_small_model_are_stated_in_mib(tmp_path):
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    assert (
        " MiB each; at most 4 are kept and one more is written: " in _plan(tmp_path, *tiny).stdout
    )


def test_the_disk_for_the_checkpoint_that_is_being_written_is_counted(tmp_path):
    """A phase: the last two checkpoints, the best one, that of the phase, and the next one."""
    one = 14 * 7_615_616_512
    data = json.loads(_plan(tmp_path, "--config", str(tmp_path), "-o", "json").stdout)
    assert data["storedBytes"] == 5 * one
    assert data["temporaryBytes"] == one
    on_ray = ["--config", str(tmp_path), "--set", "compute.ray=head:6379"]
    assert json.loads(_plan(tmp_path, *on_ray, "-o", "json").stdout)["temporaryBytes"] is None
    assert "Temporary files (TMPDIR): 99.3 GiB" in _plan(tmp_path, *on_ray[:2]).stdout
    assert "TMPDIR" not in _plan(tmp_path, *on_ray).stdout


def test_a_source_whose_architecture_is_not_at_hand_asks_for_the_config(tmp_path):
    done = _plan(tmp_path)
    assert done.exit_code == 2
    assert "models:/agent/1: its config.json is not read from there" in done.stderr


def test_a_folder_without_a_model_is_reported_with_the_field(tmp_path):
    done = _plan(tmp_path, "--set", "model.source=file:///nonexistent")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: spec.model.source: /nonexistent has no config.json; correct the path, or give a "
        "folder that has it with --config\n"
    )
    (tmp_path / "empty").mkdir()
    done = _plan(tmp_path, "--config", str(tmp_path / "empty"))
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: --config: {tmp_path / 'empty'} has no config.json; ")


def _plan_without_a_hub(
    folder: Path, *, in_manifest: bool = False
) -> subprocess.CompletedProcess[str]:
    """A plan of a model of the hub, at an address where nothing listens; `compute.env` of the
    manifest or the environment of the process has it."""
    (folder / "run.yaml").write_text(MANIFEST.replace("models:/agent/1", "hf://agent/one"))
    with silent_port() as port:
        address = f"http://127.0.0.1:{port}"
        hub = {} if in_manifest else {"HF_ENDPOINT": address}
        variable = f"compute.env=[{{name: HF_ENDPOINT, value: '{address}'}}]"
        code = "from agentrl_pipelines.cli.commands.plan import plan; plan()"
        return subprocess.run(
            [
                *(sys.executable, "-c", code, str(folder / "run.yaml")),
                *(("--set", variable) if in_manifest else ()),
            ],
            env=os.environ | hub | {"HF_HOME": str(folder / "cache"), "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.mark.parametrize("in_manifest", [False, True])
def test_a_hub_that_cannot_be_reached_is_one_line_without_retries(tmp_path, in_manifest):
    done = _plan_without_a_hub(tmp_path, in_manifest=in_manifest)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "error: hf://agent/one: config.json cannot be downloaded; give a folder that has it with "
        "--config: "
    )
    assert "Connection refused" in line


def test_without_the_hub_the_config_that_was_downloaded_before_is_read(tmp_path):
    cache, commit = tmp_path / "cache" / "hub" / "models--agent--one", "0123456789" * 4
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "snapshots" / commit / "config.json").write_text(json.dumps(QWEN_7B))
    done = _plan_without_a_hub(tmp_path)
    assert "7.62 B parameters" in done.stdout
    assert done.stderr == ""


def test_trainers_of_an_embedded_ray_are_processes_of_the_stages_pod(tmp_path):
    on_ray = "compute={ray: embedded, cpu: '3', memory: 6Gi, trainers: {count: 2}}"
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "l40s"]
    done = _plan(tmp_path, *tiny, "--set", on_ray)
    # The stage that trains, and a server of the environment with 250m and 256Mi.
    assert (
        "On Kubernetes: 2 pods, with 3.25 CPUs and 6.2 GiB. Trainers and samplers have no pods: "
        "they are processes in the stage's, which requests 3 CPU and 6Gi (compute.cpu, gpus, "
        "memory)."
    ) in done.stdout
    there = _plan(tmp_path, *tiny, "--set", "compute={ray: '10.0.0.1:6379'}").stdout
    assert (
        "Trainers and samplers are not in them, but on the Ray cluster at 10.0.0.1:6379." in there
    )


def test_a_plan_warns_of_an_embedded_ray_whose_pod_has_too_little_memory(tmp_path):
    on_ray = "compute={ray: embedded, memory: 1Gi, trainers: {count: 3}}"
    tiny = ["--set", "model.source=tiny", "--set", "model.context=2048", "--device", "cpu"]
    done = _plan(tmp_path, *tiny, "--set", on_ray)
    assert "warning: spec.compute.memory: is 1Gi; on Kubernetes all trainers and" in done.stdout
