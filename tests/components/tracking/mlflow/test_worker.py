"""Runs, params, metrics, files and descriptions, as the real worker records them."""

import threading
import time
from pathlib import Path

from mlflow_worker import Worker

from agentrl_components.tracking.mlflow.messages import Finish
from agentrl_components.tracking.send_queue import Artifact, Description, Metrics, Params


def test_the_database_is_created_atomically(worker: Worker, tmp_path: Path) -> None:
    """MLflow cannot use a partially created database."""
    other = Worker(worker.process, tmp_path)
    database = tmp_path / "mlflow.db"
    tables = "select name from sqlite_master where type = 'table'"
    first: list[list[tuple]] = []

    def read_tables() -> None:
        while not database.exists():
            time.sleep(0.001)
        first.append(other.rows(tables))

    reader = threading.Thread(target=read_tables, daemon=True)
    reader.start()
    other.start()
    reader.join()
    assert ("alembic_version",) in first[0]
    assert first == [other.rows(tables)]
    assert {path.name for path in tmp_path.iterdir()} <= {"mlflow.db", "mlartifacts"}


def test_params_metrics_and_files_are_recorded(worker: Worker) -> None:
    run_id = worker.start()
    picture = worker.folder / "curve.png"
    picture.write_bytes(b"png")
    for job in (
        Params(values={"seed": "0", "horizon.phases[0].maxTurns": "6"}),
        Metrics(iterations={0: (1000, {"success": 0.25}), 1: (2000, {"success": 0.5})}),
        Artifact(path=picture),
        Finish(status="FINISHED"),
    ):
        assert worker.ask(job).error is None
    assert worker.rows("select key, value from params where run_uuid = ? order by key", run_id) == [
        ("horizon.phases.0.maxTurns", "6"),
        ("seed", "0"),
    ]
    assert worker.rows("select step, value, timestamp from metrics where run_uuid = ?", run_id) == [
        (0, 0.25, 1000),
        (1, 0.5, 2000),
    ]
    assert worker.rows("select name, status from runs where run_uuid = ?", run_id) == [
        ("babyai", "FINISHED")
    ]
    assert len(list(worker.folder.glob(f"mlartifacts/{run_id}/artifacts/curve.png"))) == 1


def test_params_of_a_resumed_run_remain_and_new_ones_are_added(worker: Worker) -> None:
    """An edited field, and one that the manifest did not have when the run began."""
    run_id = worker.start()
    assert worker.ask(Params(values={"seed": "0", "env[0].name": "A"})).error is None
    for _ in range(2):
        worker.start(run_id)
        edited = Params(values={"seed": "1", "env[0].name": "A", "env[1].name": "B"})
        for _ in range(2):
            assert worker.ask(edited).error is None
    assert worker.rows("select key, value from params where run_uuid = ? order by key", run_id) == [
        ("env.0.name", "A"),
        ("env.1.name", "B"),
        ("seed", "0"),
    ]


def test_a_resumed_run_duplicates_nothing(worker: Worker) -> None:
    run_id = worker.start()
    worker.ask(Metrics(iterations={0: (1000, {"success": 0.25}), 1: (1001, {"success": 0.5})}))
    worker.ask(Finish(status="KILLED"))
    assert worker.start(run_id) == run_id
    worker.ask(
        Metrics(iterations={1: (9000, {"success": 0.5, "late": 1.0}), 2: (9001, {"success": 1})})
    )
    worker.ask(Metrics(iterations={2: (9002, {"success": 1.0})}))
    found = worker.rows(
        "select key, step, timestamp from metrics where run_uuid = ? order by key, step", run_id
    )
    assert found == [
        ("late", 1, 9000),
        ("success", 0, 1000),
        ("success", 1, 1001),
        ("success", 2, 9001),
    ]
    assert worker.rows("select status from runs where run_uuid = ?", run_id) == [("RUNNING",)]


def test_an_iteration_that_is_repeated_with_other_values_shows_the_last_ones(
    worker: Worker,
) -> None:
    run_id = worker.start()
    worker.ask(Metrics(iterations={7: (1000, {"success": 0.75, "loss": 0.5})}))
    worker.start(run_id)
    worker.ask(Metrics(iterations={7: (2000, {"success": 0.25, "loss": 0.5})}))
    query = "select key, value, timestamp from metrics where run_uuid = ? order by key, timestamp"
    assert worker.rows(query, run_id) == [
        ("loss", 0.5, 1000),
        ("success", 0.75, 1000),
        ("success", 0.25, 2000),
    ]
    query = "select key, value from latest_metrics where run_uuid = ? order by key"
    assert worker.rows(query, run_id) == [("loss", 0.5), ("success", 0.25)]


def test_non_finite_metrics_are_recorded_once(worker: Worker) -> None:
    run_id = worker.start()
    values = {"a": float("nan"), "b": float("inf"), "c@10%": 1.0}
    assert worker.ask(Metrics(iterations={0: (1000, values)})).error is None
    assert worker.start(run_id) == run_id
    assert worker.ask(Metrics(iterations={0: (2000, values)})).error is None
    found = worker.rows(
        "select key, is_nan, value > 1e300 from metrics where run_uuid = ? order by key", run_id
    )
    assert found == [("a", 1, 0), ("b", 0, 1), ("c.10", 0, 0)]


def test_a_run_is_found_by_its_uid_and_an_unknown_id_creates_a_run(worker: Worker) -> None:
    run_id = worker.start(uid="3f2a")
    assert worker.start(uid="3f2a") == run_id
    assert worker.start(uid="4b1c") != run_id
    assert worker.start(run_id="0" * 32) not in ("0" * 32, run_id)


def test_a_description_replaces_the_previous_one(worker: Worker) -> None:
    run_id = worker.start()
    for text in ("**Nothing yet**", "**Success rose**"):
        assert worker.ask(Description(text=text)).error is None
    query = "select value from tags where run_uuid = ? and key = 'mlflow.note.content'"
    assert worker.rows(query, run_id) == [("**Success rose**",)]
