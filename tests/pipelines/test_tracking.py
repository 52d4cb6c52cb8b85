"""The MLflow run of stages that run as separate processes, without an operator."""

import sqlite3
from contextlib import closing

from heldout_results import heldout_result
from stage_run import manifest, stage_context

from agentrl_components.reporting import build
from agentrl_components.run.journal import Journal
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state
from agentrl_pipelines.stages.runner import run_stage
from agentrl_pipelines.tracking import best_model


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


def test_a_final_checkpoint_with_the_best_evaluation_is_reported_and_registered(tmp_path):
    """Its evaluation is in the store, with success in all tasks, before the stage begins."""
    run = manifest(
        tmp_path / "kept",
        horizon={"phases": [{"maxTurns": 2, "iterations": 4}]},
        evaluation={"every": 2},
    )
    store = DirectoryStore(tmp_path / "kept")
    for name in ("provision", "train"):
        assert run_stage(name, stage_context(run, tmp_path / "scratch", 0)) == 0
    assert read_state(store).best == 2
    final = heldout_result("after", 1.0)
    store.put(keys.evaluation("after"), final.model_dump_json().encode())

    for name in ("evaluate", "expand"):
        assert run_stage(name, stage_context(run, tmp_path / "scratch", 0)) == 0
    assert read_state(store).best == 4
    [best] = [one.iteration for one in build.build(store, run).checkpoints if one.best]
    assert best == 4
    history = [IterationRecord.model_validate(one) for one in Journal(store).iterations()]
    weights = best_model(store, run.spec, history, tmp_path) / "model.safetensors"
    assert weights.read_bytes() == store.get(keys.checkpoint(4, "model.safetensors"))
