"""The MLflow run of stages that run as separate processes, without an operator."""

import sqlite3
from contextlib import closing

from stage_run import manifest, stage_context

from agentrl_pipelines.stages.runner import run_stage


def test_the_last_evaluation_terminates_the_mlflow_run_and_registers_the_best_model(tmp_path):
    database = tmp_path / "mlflow.db"
    run = manifest(
        tmp_path / "kept",
        horizon={"phases": [{"maxTurns": 2, "iterations": 2}]},
        tracking={"uri": f"sqlite:///{database}", "registerAs": "walker"},
    )

    def rows(query: str) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(database)) as mlflow:
            return mlflow.execute(query).fetchall()

    for name in ("provision", "train"):
        assert run_stage(name, stage_context(run, tmp_path / "scratch", 0)) == 0
    [(run_id, status)] = rows("select run_uuid, status from runs")
    assert status == "RUNNING"
    assert rows("select name from registered_models") == []

    for name in ("evaluate", "expand"):
        assert run_stage(name, stage_context(run, tmp_path / "scratch", 0)) == 0
    assert rows("select run_uuid, status from runs") == [(run_id, "FINISHED")]
    [(note,)] = rows("select value from tags where key = 'mlflow.note.content'")
    assert "agentrl run run.yaml" in note
    [(description,)] = rows("select description from model_versions")
    assert "without that mask" in description.lower()
    assert rows("select name, run_id from model_versions") == [("walker", run_id)]
