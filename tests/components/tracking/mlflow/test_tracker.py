"""The tracker never raises and never blocks if its worker process fails.

The workers here are stubs of a few lines; the other modules of this folder run the real one.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrl_components.errors import StoreError
from agentrl_components.tracking.mlflow.messages import target, worker_environment
from agentrl_components.tracking.mlflow.tracker import MlflowTracker
from agentrl_components.tracking.tracker import Tracker

SERVE = """
import pickle, sys
from agentrl_components.tracking.mlflow.messages import Finish, Reply, Target
from agentrl_components.tracking.send_queue import Metrics
def serve(answer):
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        pickle.dump(answer(job), sys.stdout.buffer)
        sys.stdout.buffer.flush()
"""
LOGS_JOBS = (
    SERVE
    + """
def answer(job):
    print(job, file=sys.stderr, flush=True)
    return Reply(run_id="run-1")
serve(answer)
"""
)
UNAVAILABLE = SERVE + "serve(lambda job: Reply(error='connection refused', transient=True))"
UNAVAILABLE_TWICE = (
    SERVE
    + """
requests = 0
def answer(job):
    global requests
    requests += 1
    if requests <= 2:
        return Reply(error="starting up", transient=True)
    print(job, file=sys.stderr, flush=True)
    return Reply(run_id="run-1")
serve(answer)
"""
)
REJECTS_METRICS = (
    SERVE
    + """
serve(lambda job: Reply(error="nan") if isinstance(job, Metrics) else Reply(run_id="run-1"))
"""
)
DIES_OF_EPISODES = (
    SERVE
    + """
import os
def answer(job):
    print(type(job).__name__, file=sys.stderr, flush=True)
    if type(job).__name__ == "Episodes":
        os._exit(1)
    return Reply(run_id="run-1")
serve(answer)
"""
)
CANNOT_STORE_EPISODES = (
    SERVE
    + """
def answer(job):
    print(type(job).__name__, getattr(job, "iteration", ""), file=sys.stderr, flush=True)
    if type(job).__name__ == "Episodes" and job.iteration != 3:
        return Reply(error="full", transient=True)
    return Reply(run_id="run-1")
serve(answer)
"""
)
REPORTS_PROGRESS = (
    SERVE
    + """
import time
from agentrl_components.tracking.mlflow.messages import Progress
def answer(job):
    if type(job).__name__ == "Model":
        for _ in range(16):
            time.sleep(0.25)
            pickle.dump(Progress(size=0), sys.stdout.buffer)
            sys.stdout.buffer.flush()
    return Reply(run_id="run-1")
serve(answer)
"""
)
UPLOADS_A_LARGE_FILE = (
    SERVE
    + """
import time
from agentrl_components.tracking.mlflow.messages import Progress
def answer(job):
    if type(job).__name__ == "Model":
        pickle.dump(Progress(size=300_000_000), sys.stdout.buffer)  # 300 s at 1 MB/s
        sys.stdout.buffer.flush()
        time.sleep(4.0)
    return Reply(run_id="run-1")
serve(answer)
"""
)
HANGS = "import time; time.sleep(3600)"
DIES = "import sys; sys.exit('no disk')"


def tracker(folder: Path, script: str, **options: object) -> MlflowTracker:
    return MlflowTracker(
        folder,
        worker=(sys.executable, "-c", script),
        pause_s=0.05,
        **{"deadline_s": 300.0, **options},  # type: ignore[arg-type]
    )


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until `condition` is true; on a busy machine the worker may reply late."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_jobs_arrive_and_the_run_is_terminated(tmp_path: Path) -> None:
    run_ids: list[str] = []
    tracking: Tracker = tracker(tmp_path, LOGS_JOBS, on_run_id=run_ids.append)
    tracking.params({"seed": "0"})
    tracking.metrics(0, {"success": 0.25})
    assert tracking.close("FINISHED") == []
    assert run_ids == ["run-1"]
    log = (tmp_path / "mlflow.log").read_text().splitlines()
    assert log[0].startswith("Target(uri='sqlite:///")
    assert log[1] == "Params(values={'seed': '0'})"
    assert "{'success': 0.25}" in log[2]
    assert log[3] == "Finish(status='FINISHED')"


def test_a_tracker_without_records_starts_no_worker(tmp_path: Path) -> None:
    assert tracker(tmp_path, LOGS_JOBS).close("FINISHED") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (UNAVAILABLE, "connection refused"),
        (HANGS, "did not answer in time"),
        (DIES, "worker process died"),
    ],
)
def test_an_unreachable_server_blocks_nothing_and_is_reported(
    tmp_path: Path, script: str, reason: str
) -> None:
    tracking = tracker(tmp_path, script, deadline_s=1.0)
    tracking.params({"seed": "0"})
    for iteration in range(1000):
        tracking.metrics(iteration, {"success": 0.5})
    if script != HANGS:  # a hanging worker would report no problem for an hour
        wait_until(lambda: tracking.problem is not None)
    failed = tracking.close("FAILED")
    assert tracking.run_id is None
    assert reason in failed[0]
    assert failed[1] == "not recorded: the run's parameters"
    assert failed[2] == "not recorded: metrics of iterations 0 to 99"
    assert len(failed) == 12


@pytest.mark.parametrize("script", [REPORTS_PROGRESS, UPLOADS_A_LARGE_FILE])
def test_close_waits_for_an_upload_that_goes_on(tmp_path: Path, script: str) -> None:
    tracking = tracker(tmp_path, script, deadline_s=3.0)
    tracking.params({"seed": "0"})
    wait_until(lambda: tracking.run_id is not None)
    tracking.model(tmp_path, "walker", "", {})
    assert tracking.close("FINISHED") == []


LOGS_START = "import sys; print('started', file=sys.stderr, flush=True); " + HANGS


def test_no_worker_is_started_after_giving_up(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, LOGS_START, deadline_s=0.1)
    tracking.metrics(0, {"success": 0.5})
    log = tmp_path / "mlflow.log"
    wait_until(lambda: log.exists() and log.read_text() != "")
    assert tracking.close("FINISHED")[1:] == ["not recorded: metrics of iterations 0 to 0"]
    assert log.read_text() == "started\n"


def test_all_records_are_sent_after_an_outage(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, UNAVAILABLE_TWICE)
    tracking.metrics(0, {"success": 0.5})
    wait_until(lambda: tracking.run_id is not None)
    tracking.metrics(1, {"success": 0.75})
    assert tracking.close("FINISHED") == []
    assert tracking.problem is None
    log = (tmp_path / "mlflow.log").read_text()
    assert "{'success': 0.5}" in log
    assert "{'success': 0.75}" in log


REFUSES = (
    SERVE
    + """
def answer(job):
    print("asked", file=sys.stderr, flush=True)
    return Reply(error="failed with error code 401")
serve(answer)
"""
)


def test_a_server_that_refuses_the_run_is_noted_once_and_while_the_run_goes_on(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    tracking = tracker(tmp_path, REFUSES, note=notes.append, uri="http://mlflow:5000")
    tracking.params({"seed": "0"})
    log = tmp_path / "mlflow.log"
    wait_until(lambda: log.exists() and log.read_text().count("asked") >= 3)
    assert notes == [
        "MLflow at http://mlflow:5000: failed with error code 401; records are kept, of episodes "
        "the latest, and sent when it takes them; if its address (spec.tracking.uri) or the "
        "credentials are wrong, correct them and start the run again: it resumes"
    ]
    assert tracking.close("FINISHED")[0].endswith("failed with error code 401")
    assert len(notes) == 1


def test_an_outage_and_its_end_are_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    tracking = tracker(tmp_path, UNAVAILABLE_TWICE, note=notes.append, uri="http://mlflow:5000")
    tracking.metrics(0, {"success": 0.5})
    wait_until(lambda: len(notes) == 2)
    assert notes == [
        "MLflow at http://mlflow:5000: starting up; records are kept, of episodes the latest, and "
        "sent when it takes them",
        "MLflow at http://mlflow:5000 takes records again; all that were kept are sent",
    ]
    assert tracking.close("FINISHED") == []


def test_a_job_that_is_never_taken_is_not_noted_again_after_jobs_that_are(tmp_path: Path) -> None:
    notes: list[str] = []
    tracking = tracker(tmp_path, CANNOT_STORE_EPISODES, note=notes.append)
    tracking.episodes(1, "train", [])
    log = tmp_path / "mlflow.log"
    wait_until(lambda: log.exists() and "Episodes" in log.read_text())
    for iteration in (1, 2, 3):
        tracking.metrics(iteration, {"success": 0.5})
        wait_until(lambda sent=iteration: log.read_text().count("Metrics") == sent)
    tracking.close("RUNNING")
    assert len(notes) == 1
    assert ": full; records are kept" in notes[0]


def test_the_first_refusal_of_each_kind_of_job_is_noted_at_once(tmp_path: Path) -> None:
    notes: list[str] = []
    tracking = tracker(tmp_path, REJECTS_METRICS, note=notes.append, uri="http://mlflow:5000")
    for iteration in (0, 1):
        tracking.metrics(iteration, {"loss": float("nan")})
        wait_until(lambda: len(notes) > 0)
    tracking.close("FINISHED")
    assert notes == ["MLflow at http://mlflow:5000 refuses metrics of iterations 0 to 0: nan"]


def test_a_close_that_takes_long_is_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    tracking = tracker(
        tmp_path, HANGS, note=notes.append, uri="http://m:5000", deadline_s=1.0, patience_s=0.1
    )
    tracking.params({"seed": "0"})
    tracking.close("FINISHED")
    assert notes == ["sending the last records to MLflow at http://m:5000"]


def test_a_permanent_error_is_reported_and_not_retried(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, REJECTS_METRICS)
    tracking.metrics(0, {"loss": float("nan")})
    tracking.params({"seed": "0"})
    assert tracking.close("FINISHED") == ["metrics of iterations 0 to 0: nan"]


def test_errors_with_the_same_text_are_reported_in_one_line(tmp_path: Path) -> None:
    script = (
        SERVE
        + """
serve(lambda job: Reply(run_id="run-1", error="refused" if hasattr(job, "episodes") else None))
"""
    )
    tracking = tracker(tmp_path, script)
    for iteration in (1, 2, 3):
        tracking.episodes(iteration, "train", [])
    assert tracking.close("FINISHED") == [
        "0 episodes of iteration 1 (train) and 2 more: refused",
    ]


def test_a_job_that_kills_the_worker_keeps_no_other_one_from_being_sent(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, DIES_OF_EPISODES)
    tracking.params({"seed": "0"})
    tracking.episodes(1, "train", [])
    tracking.artifact(tmp_path / "report.html")
    tracking.model(tmp_path, "walker", "", {})
    tracking.describe("solved")
    failed = tracking.close("FINISHED")
    assert failed == [
        "not recorded: 0 episodes of iteration 1 (train): the worker process died; see "
        f"{tmp_path / 'mlflow.log'}"
    ]
    log = (tmp_path / "mlflow.log").read_text().split()
    assert {"Params", "Artifact", "Model", "Description"} <= set(log)
    assert log[-1] == "Finish"


def test_a_batch_that_is_never_taken_keeps_no_later_one_from_being_sent(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, CANNOT_STORE_EPISODES)
    tracking.episodes(1, "train", [])
    log = tmp_path / "mlflow.log"
    wait_until(lambda: log.exists() and log.read_text().count("Episodes 1") >= 2)
    tracking.episodes(3, "train", [])
    wait_until(lambda: "Episodes 3" in log.read_text())
    tracking.close("RUNNING")


def test_each_job_that_was_not_taken_is_reported_with_the_reason(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, CANNOT_STORE_EPISODES)
    tracking.model(tmp_path, "walker", "", {})
    for iteration in (11, 12, 13, 14):
        tracking.episodes(iteration, "train", [])
    assert sorted(tracking.close("FINISHED")) == [
        f"not recorded: 0 episodes of iteration {iteration} (train): full"
        for iteration in (11, 12, 13, 14)
    ]
    log = (tmp_path / "mlflow.log").read_text().split()
    assert "Model" in log
    assert log[-1] == "Finish"


def test_a_run_id_that_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    def refuse(run_id: str) -> None:
        raise StoreError(f"tracker.json: full, {run_id}")

    tracking = tracker(tmp_path, LOGS_JOBS, on_run_id=refuse)
    tracking.params({"seed": "0"})
    assert tracking.close("FINISHED") == [
        "the id of the MLflow run could not be stored: tracker.json: full, run-1"
    ]


def test_the_tag_of_the_run_is_made_before_the_run_is_opened(tmp_path: Path) -> None:
    calls: list[str] = []

    def uid() -> str:
        calls.append("tag")
        if len(calls) == 1:
            raise StoreError("tracker.json: full")
        return "3f2a"

    tracking = tracker(tmp_path, LOGS_JOBS, uid=uid, on_run_id=calls.append, note=calls.append)
    tracking.params({"seed": "0"})
    wait_until(lambda: tracking.run_id is not None)
    assert tracking.close("FINISHED") == []
    assert calls[0] == calls[2] == "tag"
    assert "the run's tag could not be stored: tracker.json: full; records are kept" in calls[1]
    assert calls[3] == "run-1"
    log = (tmp_path / "mlflow.log").read_text()
    assert log.startswith("Target(")
    assert log.count("run_id=None, uid='3f2a')") == 1


def test_a_run_whose_id_is_known_needs_no_tag(tmp_path: Path) -> None:
    calls: list[str] = []

    def uid() -> str:
        calls.append("tag")
        return "3f2a"

    tracking = tracker(tmp_path, LOGS_JOBS, run_id="run-1", uid=uid)
    tracking.params({"seed": "0"})
    assert tracking.close("FINISHED") == []
    assert calls == []


def test_close_may_be_called_twice(tmp_path: Path) -> None:
    tracking = tracker(tmp_path, LOGS_JOBS)
    tracking.params({"seed": "0"})
    assert tracking.close("KILLED") == []
    assert tracking.close("FINISHED") == []
    assert "Finish(status='KILLED')" in (tmp_path / "mlflow.log").read_text()


def test_the_run_named_by_the_environment_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("/run")
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    alone = target(folder, None, "agentrl", "name", None)
    assert alone.uri == "sqlite:////run/mlflow.db"
    assert alone.artifacts == "file:///run/mlartifacts"
    assert alone.run_id is None
    monkeypatch.setenv("MLFLOW_RUN_ID", "parent")
    step = target(folder, None, "agentrl", "name", None)
    assert (step.uri, step.artifacts, step.run_id) == ("http://mlflow:5000", None, "parent")
    resumed = target(folder, "http://other", "agentrl", "name", "mine")
    assert (resumed.uri, resumed.run_id) == ("http://other", "mine")


def test_a_tracking_uri_takes_precedence_over_the_run_of_a_kfp_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "of-the-task-evaluate")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    same = target(Path("/run"), "http://mlflow:5000", "agentrl", "name", None)
    assert (same.uri, same.run_id) == ("http://mlflow:5000", None)


def test_the_worker_environment_drops_kfp_variables_of_another_server_or_run() -> None:
    injected = {
        "MLFLOW_RUN_ID": "of-the-task",
        "MLFLOW_EXPERIMENT_ID": "1",
        "MLFLOW_TRACKING_URI": "https://kubeflows:8443",
        "MLFLOW_TRACKING_AUTH": "kubernetes-namespaced",
        "MLFLOW_WORKSPACE": "kubeflow",
        "MLFLOW_TRACKING_USERNAME": "me",
    }
    other_server = worker_environment("http://mlflow:5000", injected)
    assert set(injected) & set(other_server) == {"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME"}
    same_server = worker_environment("https://kubeflows:8443/", injected)
    assert set(injected) - set(same_server) == {"MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"}


KILLED_RUN = """
import os, signal, sys, time
from pathlib import Path
from agentrl_components.tracking.mlflow.tracker import MlflowTracker
run_ids = []
worker = (sys.executable, "-c", sys.argv[2])
tracker = MlflowTracker(Path(sys.argv[1]), worker=worker, on_run_id=run_ids.append)
tracker.params({"seed": "0"})
while not run_ids:
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
LOGS_EXIT = (
    "import atexit, sys; atexit.register(print, 'ended', file=sys.stderr, flush=True)" + LOGS_JOBS
)
"""The exit code is not checked: the worker may fail to write a reply."""


def test_the_worker_exits_when_the_run_is_killed(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(tmp_path), LOGS_EXIT], timeout=300, check=False
    )
    wait_until(lambda: "ended" in (tmp_path / "mlflow.log").read_text())
