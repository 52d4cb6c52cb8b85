"""`kubectl apply` trains an agent, and what people look at afterwards is there."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from installed import Installed, manifest

from agentrl_components.storage import checkpoint, keys

pytestmark = pytest.mark.e2e

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


def test_the_horizon_grew_as_scheduled(installed: Installed, calm: Calm) -> None:
    lines = [json.loads(record) for record in installed.records(*calm)]
    assert [line["max_turns"] for line in lines] == [3] * 6 + [5] * 10


def test_the_agent_is_well_above_chance(installed: Installed, calm: Calm) -> None:
    store = installed.place(*calm)
    found = {
        name: json.loads(store.get(keys.evaluation(name))) for name in ("random", "before", "after")
    }
    assert found["after"]["low"] > found["random"]["high"]
    assert found["after"]["success"] > found["before"]["success"]


def test_the_best_checkpoint_is_a_model_that_transformers_loads(
    installed: Installed, calm: Calm, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    store = installed.place(*calm)
    checkpoint.fetch(store, checkpoint.complete(store)[-1], tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert sum(p.numel() for p in model.parameters()) > 100_000


def test_the_status_says_what_a_person_asks(installed: Installed, calm: Calm) -> None:
    status = installed.status("calm")
    assert (status["state"], status["iteration"], status["horizon"]) == ("Succeeded", 16, 5)
    assert "%" in status["success"]
    assert status["bestCheckpoint"].startswith(f"{installed.root}/kubeflow/calm-")
    conditions = {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}
    assert conditions["Accepted"][0] == conditions["Succeeded"][0] == "True"
    assert status["cost"]["tokens"] > 0
    assert status["kfpRun"] in status["kfpUrl"]


def test_metrics_and_played_episodes_are_in_mlflow(installed: Installed, calm: Calm) -> None:
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


def test_the_best_model_is_registered(installed: Installed, calm: Calm) -> None:
    del calm
    asked = {"filter": f"run_id='{installed.status('calm')['mlflowRun']}'"}
    where = f"{installed.mlflow}/api/2.0/mlflow/model-versions/search"
    found = httpx.get(where, params=asked).raise_for_status().json()
    assert [version["name"] for version in found["model_versions"]] == ["babyai-agent"]


def test_nothing_is_left_running(installed: Installed, calm: Calm) -> None:
    del calm
    installed.until(
        "the environments of a run that is done are gone",
        lambda: not list(installed.pods(**{"agentrl.dev/run": "calm"})),
        600,
    )


NO_TURNS = {"phases": [{"maxTurns": 0, "iterations": 1}]}
SHRINKING = {"phases": [{"maxTurns": 5, "iterations": 1}, {"maxTurns": 3, "iterations": 1}]}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("spec.horizon.phases[0].maxTurns", {"horizon": NO_TURNS}),
        ("spec.algorithm.name", {"algorithm": {"name": "sarsa"}}),
        ("spec.horizon.phases", {"horizon": SHRINKING}),
        ("spec.sead", {"sead": 1}),
    ],
)
def test_a_bad_manifest_is_refused_by_the_name_of_its_field(
    installed: Installed, field: str, change: dict[str, object]
) -> None:
    import yaml

    told = installed.kubectl(
        "create", "-f", "-", stdin=yaml.safe_dump(manifest("bad", **change)), check=False
    )
    assert field.lower() in told.lower(), told
    assert "bad" not in installed.kubectl("get", "agentrlruns", "-o", "name")
