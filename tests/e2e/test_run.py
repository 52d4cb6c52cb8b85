"""A run that is applied with kubectl trains an agent, and leaves status, records and metrics."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from installed import Installed

from agentrl_components.storage import checkpoint, keys

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("storm")]  # that run starts meanwhile

Calm = tuple[str, str]
STAGES = {"provision", "rollout", "update", "evaluate", "expand"}


def test_each_phase_is_a_kfp_run_whose_stages_succeeded(installed: Installed, calm: Calm) -> None:
    runs = installed.kfp_runs(calm[1])
    assert [run["state"] for run in runs] == ["SUCCEEDED", "SUCCEEDED"]
    for run in runs:
        tasks = installed.kfp_run(run["run_id"])["run_details"]["task_details"]
        done = {task["display_name"] for task in tasks if task["state"] == "SUCCEEDED"}
        assert done >= STAGES
    assert runs[0]["experiment_id"] == runs[1]["experiment_id"]


def test_horizon_grows_as_scheduled(installed: Installed, calm: Calm) -> None:
    lines = [json.loads(record) for record in installed.records(*calm)]
    assert [line["max_turns"] for line in lines] == [3] * 6 + [5] * 10


def test_agent_is_well_above_chance(installed: Installed, calm: Calm) -> None:
    store = installed.run_store(*calm)
    found = {
        name: json.loads(store.get(keys.evaluation(name))) for name in ("random", "before", "after")
    }
    assert found["after"]["low"] > found["random"]["high"]
    assert found["after"]["success"] > found["before"]["success"]


def test_transformers_loads_the_best_checkpoint(
    installed: Installed, calm: Calm, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    store = installed.run_store(*calm)
    checkpoint.fetch(store, checkpoint.complete(store)[-1], tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert sum(p.numel() for p in model.parameters()) > 100_000


def test_status_summarizes_the_run(installed: Installed, calm: Calm) -> None:
    status = installed.status("calm")
    assert (status["state"], status["iteration"], status["horizon"]) == ("Succeeded", 16, 5)
    assert "%" in status["success"]
    assert status["bestCheckpoint"].startswith(f"{installed.root}/kubeflow/calm-")
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert conditions["Accepted"][0] == conditions["Succeeded"][0] == "True"
    assert status["cost"]["tokens"] > 0
    assert status["kfpRun"] in status["kfpUrl"]


def test_metrics_and_episodes_are_in_mlflow(installed: Installed, calm: Calm) -> None:
    run_id = installed.status("calm")["mlflowRun"]
    api = f"{installed.mlflow}/api/2.0/mlflow"
    run = httpx.get(f"{api}/runs/get", params={"run_id": run_id}).raise_for_status().json()["run"]
    assert run["info"]["status"] == "FINISHED"
    asked = {"run_id": run_id, "metric_key": "train/success"}
    history = httpx.get(f"{api}/metrics/get-history", params=asked).raise_for_status().json()
    assert sorted({metric["step"] for metric in history["metrics"]}) == list(range(1, 17))
    experiment = run["info"]["experiment_id"]
    traces = httpx.post(
        f"{installed.mlflow}/api/3.0/mlflow/traces/search",
        json={
            "locations": [
                {
                    "type": "MLFLOW_EXPERIMENT",
                    "mlflow_experiment": {"experiment_id": experiment},
                }
            ],
            "max_results": 100,
        },
    )
    assert traces.raise_for_status().json()["traces"]


def test_best_model_is_registered(installed: Installed, calm: Calm) -> None:
    del calm
    asked = {"filter": f"run_id='{installed.status('calm')['mlflowRun']}'"}
    where = f"{installed.mlflow}/api/2.0/mlflow/model-versions/search"
    found = httpx.get(where, params=asked).raise_for_status().json()
    assert [version["name"] for version in found["model_versions"]] == ["babyai-agent"]


def test_run_succeeds_while_the_network_policies_are_in_force(
    installed: Installed, calm: Calm
) -> None:
    names = {one["metadata"]["name"] for one in installed.get("networkpolicies")["items"]}
    assert names >= {"agentrl", "agentrl-environments"}
    assert installed.status(calm[0])["state"] == "Succeeded"


def test_no_pod_of_a_finished_run_remains(installed: Installed, calm: Calm) -> None:
    del calm
    installed.until(
        "the environment servers of a finished run are gone",
        lambda: not list(installed.pods(**{"agentrl.dev/run": "calm"})),
        600,
    )
