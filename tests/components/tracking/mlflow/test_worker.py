"""The real worker, one process for all tests of this module, and the records that it writes.

Importing MLflow takes seconds, so nothing here imports it: the database is read as SQL.
"""

import json
import os
import pickle
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlflow.models import Model as ModelDescription

from agentrl_components.tracking.mlflow.messages import Finish, Reply, Target
from agentrl_components.tracking.mlflow.traces import turn_times_ns
from agentrl_components.tracking.mlflow.tracker import WORKER
from agentrl_components.tracking.send_queue import (
    Artifact,
    Description,
    Episodes,
    Job,
    Metrics,
    Model,
    Params,
)
from agentrl_components.trajectory.record import Ending, Trajectory, Turn


class Worker:
    """Sends jobs to the process and reads its replies."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    def ask(self, job: Job | Target | Finish) -> Reply:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(job, self.process.stdin)
        self.process.stdin.flush()
        reply = pickle.load(self.process.stdout)
        assert isinstance(reply, Reply)
        return reply

    def start(self, run_id: str | None = None, uid: str | None = None) -> str:
        reply = self.ask(
            Target(
                uri=f"sqlite:///{self.folder / 'mlflow.db'}",
                artifacts=(self.folder / "mlartifacts").as_uri(),
                experiment="agentrl",
                run_name="babyai",
                run_id=run_id,
                uid=uid,
            )
        )
        assert reply.error is None
        assert reply.run_id is not None
        return reply.run_id

    def rows(self, query: str, *values: str) -> list[tuple]:
        database = sqlite3.connect(self.folder / "mlflow.db")
        try:
            return database.execute(query, values).fetchall()
        finally:
            database.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("mlflow")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={
                **os.environ,
                "MLFLOW_HTTP_REQUEST_TIMEOUT": "1",
                "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "OMP_NUM_THREADS": "1",
            },
        )
    with process:
        started = Worker(process, folder)
        started.start()  # imports MLflow and creates its tables, which takes seconds
        yield started


def episode(sample: int = 0) -> Trajectory:
    return Trajectory(
        environment="babyai",
        task="babyai-0123456789abcdef",
        category="GoToLocal",
        group=4,
        sample=sample,
        iteration=3,
        ids=np.arange(9, dtype=np.int32),
        mask=np.array([0, 0, 0, 1, 1, 0, 0, 1, 0], dtype=np.bool_),
        logprobs=np.array([0, 0, 0, -1, -0.5, 0, 0, -0.25, 0], dtype=np.float32),
        allowed=None,
        turns=(
            Turn(
                start=3,
                end=5,
                reward=0.0,
                wellformed=True,
                action="go to red ball",
                observation="You see a red ball",
                version=2,
                started_s=0.5,
                duration_s=0.25,
            ),
            Turn(
                start=7,
                end=9,
                reward=0.5,
                wellformed=False,
                action="ünknown",
                observation="You stand before it",
                version=3,
                started_s=1.0,
                duration_s=2.0,
            ),
        ),
        ending=Ending.TERMINATED,
        score=0.5,
        raw_score=0.5,
        success=True,
        max_turns=6,
    )


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


def test_non_finite_metrics_are_recorded(worker: Worker) -> None:
    run_id = worker.start()
    values = {"a": float("nan"), "b": float("inf"), "c@10%": 1.0}
    assert worker.ask(Metrics(iterations={0: (1000, values)})).error is None
    found = worker.rows(
        "select key, is_nan, value > 1e300 from metrics where run_uuid = ? order by key", run_id
    )
    assert found == [("a", 1, 0), ("b", 0, 1), ("c.10", 0, 0)]


def test_a_run_is_found_by_its_uid_and_an_unknown_id_creates_a_run(worker: Worker) -> None:
    run_id = worker.start(uid="3f2a")
    assert worker.start(uid="3f2a") == run_id
    assert worker.start(uid="4b1c") != run_id
    assert worker.start(run_id="0" * 32) not in ("0" * 32, run_id)


def test_episodes_become_traces_with_one_span_per_turn(worker: Worker) -> None:
    run_id = worker.start()
    episodes = Episodes(iteration=3, name="train", time_ms=5000, episodes=(episode(0), episode(1)))
    assert worker.ask(episodes).error is None
    assert worker.ask(replace(episodes, time_ms=9000)).error is None  # sent again after a restart
    traces = worker.rows(
        "select i.request_id, i.request_preview, i.response_preview, i.timestamp_ms"
        " from trace_info i"
        " join trace_request_metadata m on m.request_id = i.request_id"
        " where m.key = 'mlflow.sourceRun' and m.value = ?",
        run_id,
    )
    assert len(traces) == 2
    trace_id, request, response, time_ms = traces[0]
    assert time_ms == 5000
    assert request == "You see a red ball"
    assert response == "solved, score 0.50, 2 turns, terminated"
    spans = worker.rows(
        "select name, type, content from spans where trace_id = ? order by start_time_unix_nano,"
        " end_time_unix_nano desc",
        trace_id,
    )
    assert [span[:2] for span in spans] == [
        ("train: GoToLocal", "AGENT"),
        ("turn 1", "LLM"),
        ("turn 2", "LLM"),
    ]
    assert "You stand before it" in spans[2][2]
    assert "ünknown" in spans[2][2]
    attributes = [json.loads(content)["attributes"] for _, _, content in spans]
    root, last = (
        {name: json.loads(value) for name, value in attributes[place].items()} for place in (0, 2)
    )
    messages = root["mlflow.spanInputs"]["messages"] + root["mlflow.spanOutputs"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[0]["content"] == "You see a red ball"
    assert root["iteration"] == 3  # equals the step of the metrics
    assert last["mlflow.spanInputs"]["messages"] == messages[:3]
    assert last["mlflow.spanOutputs"]["messages"] == messages[3:]
    usage = last["mlflow.chat.tokenUsage"]
    assert usage["output_tokens"] == last["sampled_tokens"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    tags = worker.rows("select key, value from trace_tags where request_id = ?", trace_id)
    assert {("category", "GoToLocal"), ("iteration", "3"), ("success", "true")} <= set(tags)


def test_spans_have_the_measured_durations_and_the_trace_the_sum_of_its_tokens(
    worker: Worker,
) -> None:
    run_id = worker.start()
    assert (
        worker.ask(Episodes(iteration=1, name="timed", time_ms=5000, episodes=(episode(),))).error
        is None
    )
    [(trace_id, took_ms)] = worker.rows(
        "select i.request_id, i.execution_time_ms from trace_info i"
        " join trace_request_metadata m on m.request_id = i.request_id"
        " where m.key = 'mlflow.sourceRun' and m.value = ?",
        run_id,
    )
    assert took_ms == 3000
    spans = worker.rows(
        "select name, start_time_unix_nano / 1000000, end_time_unix_nano / 1000000 from spans"
        " where trace_id = ?",
        trace_id,
    )
    assert {tuple(span) for span in spans} == {
        ("timed: GoToLocal", 5000, 8000),
        ("turn 1", 5500, 5750),
        ("turn 2", 6000, 8000),
    }
    # Turn 1 reads 3 tokens and samples 2; turn 2 reads 8, of which 1 was forced, and samples 1.
    counted = worker.rows(
        "select input_tokens, output_tokens, total_tokens from trace_info where request_id = ?",
        trace_id,
    )
    assert counted == [(11, 3, 14)]


def test_turns_without_durations_are_shown_as_1_ms_each() -> None:
    played = episode()
    assert turn_times_ns(played) == [(500_000_000, 750_000_000), (1_000_000_000, 3_000_000_000)]
    assert turn_times_ns(played.without_times()) == [(0, 1_000_000), (1_000_000, 2_000_000)]


def test_a_description_replaces_the_previous_one(worker: Worker) -> None:
    run_id = worker.start()
    for text in ("**Nothing yet**", "**Success rose**"):
        assert worker.ask(Description(text=text)).error is None
    query = "select value from tags where run_uuid = ? and key = 'mlflow.note.content'"
    assert worker.rows(query, run_id) == [("**Success rose**",)]


def test_a_registered_model_has_a_description_a_signature_and_the_dialogues_template(
    worker: Worker,
) -> None:
    worker.start()
    folder = worker.folder / "described"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    metadata = {"agentrl": {"template": "plain", "context": 512}}
    described = Model(
        folder=folder, name="described", description="Needs its mask.", metadata=metadata
    )
    assert worker.ask(described).error is None
    [(source, text)] = worker.rows(
        "select source, description from model_versions where name = 'described'"
    )
    assert text == "Needs its mask."
    loaded = ModelDescription.load(source.removeprefix("file://"))
    assert loaded.metadata == metadata
    signature = loaded.signature
    assert [column.name for column in signature.inputs] == ["dialogue"]
    assert [column.name for column in signature.outputs] == ["reply"]


def test_the_same_weights_are_registered_only_once(worker: Worker) -> None:
    run_id = worker.start()
    folder = worker.folder / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for weights in (b"1", b"1", b"2"):
        (folder / "model.safetensors").write_bytes(weights)
        assert worker.ask(Model(folder=folder, name="agent")).error is None
    versions = worker.rows(
        "select version, source, run_id from model_versions where name = 'agent' order by version"
    )
    assert [version[0] for version in versions] == [1, 2]
    assert {version[2] for version in versions} == {run_id}
    source = Path(versions[1][1].removeprefix("file://"))
    assert (source / "model.safetensors").read_bytes() == b"2"
    assert (source / "MLmodel").exists()


def test_a_missing_file_is_a_permanent_error(worker: Worker) -> None:
    worker.start()
    reply = worker.ask(Artifact(path=worker.folder / "gone.png"))
    assert reply.error is not None
    assert "gone.png" in reply.error
    assert not reply.transient


def test_a_changed_param_is_a_permanent_error(worker: Worker) -> None:
    worker.start()
    assert worker.ask(Params(values={"seed": "0"})).error is None
    assert worker.ask(Params(values={"seed": "0"})).error is None
    reply = worker.ask(Params(values={"seed": "1"}))
    assert reply.error is not None
    assert "seed" in reply.error
    assert not reply.transient


def target_at(uri: str) -> Target:
    return Target(
        uri=uri, artifacts=None, experiment="agentrl", run_name="babyai", run_id=None, uid=None
    )


def test_an_unreachable_server_is_a_transient_error(worker: Worker) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    reply = worker.ask(target_at(f"http://127.0.0.1:{port}"))
    assert reply.error is not None
    assert "refused" in reply.error
    assert reply.transient


def test_a_hanging_server_is_a_transient_error(worker: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        reply = worker.ask(target_at(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
        for connection in accepted:
            connection.close()
    assert reply.error is not None
    assert reply.transient


def test_an_unwritable_disk_is_a_transient_error(worker: Worker) -> None:
    reply = worker.ask(target_at("sqlite:////proc/nowhere/mlflow.db"))
    assert reply.error is not None
    assert reply.transient


def test_an_unknown_uri_scheme_is_a_permanent_error(worker: Worker) -> None:
    assert worker.ask(target_at("gopher://mlflow")).error is not None
