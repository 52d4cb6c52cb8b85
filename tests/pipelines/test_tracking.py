"""The MLflow run of stages that run as separate processes, without an operator."""

import json
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import pytest
from heldout_results import heldout_result
from stage_run import manifest, stage_context

from agentrl_components.reporting import build
from agentrl_components.run.journal import Journal
from agentrl_components.run.progress import SilentProgressView
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.open import DirectoryStore
from agentrl_components.storage.records import read_state, read_tracker
from agentrl_pipelines.local.run import run_local
from agentrl_pipelines.stages.runner import run_stage
from agentrl_pipelines.tracking import best_model, open_tracker

UNREACHABLE = {
    "horizon": {"phases": [{"maxTurns": 2, "iterations": 3}]},
    "tracking": {"uri": "http://127.0.0.1:9"},
}


def test_the_last_evaluation_terminates_the_mlflow_run_and_registers_the_best_model(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # MLflow's folder of artifacts beside a database
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
    artifacts = tmp_path / "mlruns" / "1" / run_id / "artifacts"
    assert (artifacts / "report.html").is_file()
    assert len(list(artifacts.glob("model/*/model.safetensors"))) == 1


@pytest.mark.parametrize(
    ("alarms", "outcome"),
    [
        ([], ("succeeded", "4 iterations")),
        (
            [{"action": "stop", "window": 1, "rewardStdBelow": 1.0}],
            ("failed", "stopped after iteration 1: reward deviation "),
        ),
    ],
)
def test_the_last_report_says_how_the_run_ended(tmp_path, alarms, outcome):
    """Its artifact is written before the stage that ends the run."""
    phases = [{"maxTurns": 2, "iterations": 2}, {"maxTurns": 4, "iterations": 2}]
    run = manifest(tmp_path / "kept", horizon={"phases": phases, "alarms": alarms})
    store, scratch = DirectoryStore(tmp_path / "kept"), tmp_path / "scratch"
    last = 0 if alarms else 1
    for phase in range(last + 1):
        for name in ("provision", "train", "evaluate"):
            assert run_stage(name, stage_context(run, scratch, phase)) == 0
        report = json.loads((scratch / "report.json").read_text())
        page = (scratch / "artifacts" / "report").read_text()
        if phase < last:
            assert (report["status"], "running: held-out success" in page) == ("running", True)
        assert run_stage("expand", stage_context(run, scratch, phase)) == 0
    state = read_state(store)
    assert state.status == report["status"] == outcome[0]
    assert state.message == report["message"]
    assert state.message.startswith(outcome[1])
    assert f"{outcome[0]}: {outcome[1]}" in page
    ends = [one["ended"] for one in report["phases"]]
    assert ends == [one.ended for one in build.build(store, run).phases]


def test_a_start_records_in_the_mlflow_run_of_one_that_was_killed_before_it_knew_its_id(tmp_path):
    run, store = manifest(tmp_path / "kept"), DirectoryStore(tmp_path / "kept")
    tags = [{"uid": "3f2a"}, {"uid": "3f2a"}, {}]
    found = []
    for tag in tags:
        store.replace(keys.TRACKER, json.dumps(tag).encode())
        tracker = open_tracker(run, tmp_path / "root", store, print)
        tracker.params({"seed": "0"})
        assert tracker.close("RUNNING") == []
        found.append(read_tracker(store).run_id)
    assert found[0] == found[1] != found[2]


def test_the_tag_of_the_mlflow_run_is_stored_before_the_run_is_opened(tmp_path):
    run, store = manifest(tmp_path / "kept", **UNREACHABLE), DirectoryStore(tmp_path / "kept")
    stored = []
    for _ in range(2):
        tracker = open_tracker(run, tmp_path / "root", store, print)
        tracker.params({"seed": "0"})
        assert tracker.close("RUNNING") != []
        stored.append(read_tracker(store).uid)
    assert stored[0] == stored[1]
    assert re.fullmatch("[0-9a-f]{32}", stored[0])


class WaitingView(SilentProgressView):
    """Does not let the first iteration end before a note about MLflow is shown."""

    def iteration(self, progress):
        deadline = time.monotonic() + 300
        while not self.iterations and not self.of_mlflow():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        super().iteration(progress)

    def of_mlflow(self):
        return [note for note in self.notes if note.startswith("tracking: MLflow at ")]


def test_a_stage_says_while_it_works_that_mlflow_does_not_answer(tmp_path):
    run, view = manifest(tmp_path / "kept", **UNREACHABLE), WaitingView()
    assert run_stage("provision", stage_context(run, tmp_path / "scratch", 0)) == 0
    stage = replace(stage_context(run, tmp_path / "scratch", 0), view=view)
    assert run_stage("train", stage) == 0
    [note] = view.of_mlflow()[:-1]  # the last one is that of the end
    assert note.startswith("tracking: MLflow at http://127.0.0.1:9: API request to ")
    assert note.endswith("; records are kept, of episodes the latest, and sent when it takes them")
    assert "tracking: not recorded: the run's parameters" in view.notes


def test_a_run_on_this_machine_says_while_it_works_that_mlflow_does_not_answer(tmp_path):
    view = WaitingView()
    run_local(manifest(tmp_path / "kept", **UNREACHABLE), tmp_path / "root", view)
    [note] = view.of_mlflow()[:-1]
    assert note.endswith("; records are kept, of episodes the latest, and sent when it takes them")


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
