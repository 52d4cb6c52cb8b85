"""Records from the store are sent to MLflow again after an outage or a kill."""

import json
import sys
import time

import pytest
from heldout_results import heldout_result
from text_episode import episode

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.summary import SuccessRate
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore
from agentrl_components.tracking.backfill import (
    MAX_EPISODE_BATCHES,
    backfill_jobs,
    evaluation_metrics,
)
from agentrl_components.tracking.mlflow.tracker import MlflowTracker
from agentrl_components.tracking.send_queue import Episodes, Metrics
from agentrl_components.trajectory.codec import encode

ONE_TURN = episode(("a door", "open", 1.0, True), success=True)


def put_evaluation(store: MemoryStore, name: str, success: float) -> None:
    store.put(
        keys.evaluation(name),
        heldout_result(name, success, wellformed=0.5).model_dump_json().encode(),
    )
    store.put(keys.episodes(name), encode([ONE_TURN]))


def put_iteration(
    store: MemoryStore, iteration: int, phase: int, max_turns: int, **metrics
) -> None:
    record = {"iteration": iteration, "phase": phase, "max_turns": max_turns, "metrics": metrics}
    store.put(keys.iteration(iteration), json.dumps(record).encode())


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    put_evaluation(store, "random", 0.2)
    put_evaluation(store, "before", 0.4)
    put_iteration(store, 0, 0, 3, success=0.5, nothing=None)
    put_iteration(store, 1, 1, 5, success=0.75)
    put_evaluation(store, "iteration-000001", 0.6)
    put_evaluation(store, "after", 0.8)
    store.put(keys.phase(0, keys.PLAYED), encode([ONE_TURN]))
    return store


def jobs_of(store: MemoryStore):
    metrics, *episodes = backfill_jobs(store, 5000)
    assert isinstance(metrics, Metrics)
    return metrics.iterations, episodes


def test_a_curve_has_no_point_of_an_evaluation_that_lacks_an_environment():
    rooms = SuccessRate(success=0.9, low=0.8, high=1.0, n=9)
    lacking = heldout_result("after", 0.9, environments={"rooms": rooms}, missing=("crafting",))
    assert evaluation_metrics(lacking, 7) == (7, {"heldout/rooms/success": 0.9})


def test_every_iteration_and_evaluation_becomes_metrics(store):
    metrics, _ = jobs_of(store)
    assert metrics == {
        0: (5000, {"heldout/random": 0.2, "heldout/success": 0.4, "heldout/wellformed": 0.5}),
        1: (
            5000,
            {
                "success": 0.5,
                "horizon/max_turns": 3.0,
                "horizon/phase": 0.0,
                "heldout/success": 0.6,
                "heldout/wellformed": 0.5,
            },
        ),
        2: (
            5000,
            {
                "success": 0.75,
                "horizon/max_turns": 5.0,
                "horizon/phase": 1.0,
                "heldout/success": 0.8,
                "heldout/wellformed": 0.5,
            },
        ),
    }


def test_of_two_evaluations_after_an_iteration_that_of_the_restored_weights_counts(store):
    put_evaluation(store, "iteration-000001-restored", 0.7)
    metrics, episodes = jobs_of(store)
    assert metrics[1][1]["heldout/success"] == 0.7
    names = [job.name for job in episodes if job.iteration == 1]
    assert names == ["heldout iteration-000001", "heldout iteration-000001-restored"]


def test_stored_episodes_are_sent_with_their_iteration(store):
    _, episodes = jobs_of(store)
    assert all(isinstance(job, Episodes) and job.time_ms == 5000 for job in episodes)
    assert sorted((job.name, job.iteration) for job in episodes) == [
        ("heldout after", 2),
        ("heldout before", 0),
        ("heldout iteration-000001", 1),
        ("heldout random", 0),
        ("train", 0),  # `ONE_TURN` has iteration -1
    ]


def test_episodes_of_the_newest_and_the_named_evaluations_are_sent(store):
    for number in range(2, 30):
        put_evaluation(store, keys.evaluation_after(number), 0.5)
    _, episodes = jobs_of(store)
    names = [job.name for job in episodes if job.name != "train"]
    assert len(names) == MAX_EPISODE_BATCHES
    assert {"heldout random", "heldout before", "heldout after"} < set(names)
    assert names[0] == "heldout iteration-000025"


def test_damaged_records_are_skipped(store):
    store.replace(keys.iteration(0), b"{")
    store.replace(keys.evaluation("after"), b"{}")
    store.replace(keys.episodes("random"), b"nothing")
    metrics, episodes = jobs_of(store)
    assert "success" not in metrics[1][1]
    assert metrics[2][1] == {"success": 0.75, "horizon/max_turns": 5.0, "horizon/phase": 1.0}
    assert {"heldout random", "heldout after"}.isdisjoint(job.name for job in episodes)


def test_an_empty_store_gives_no_jobs():
    assert list(backfill_jobs(MemoryStore(), 5000)) == []


WORKER = """
import pickle, sys
from agentrl_components.tracking.mlflow.messages import Reply
while True:
    try:
        job = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    print(job, file=sys.stderr, flush=True)
    pickle.dump(Reply(REPLY), sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""
AVAILABLE, UNAVAILABLE = "run_id='run-1'", "error='connection refused', transient=True"


def tracker_with(folder, reply: str, backfill, deadline_s: float = 300.0) -> MlflowTracker:
    worker = (sys.executable, "-c", WORKER.replace("REPLY", reply))
    return MlflowTracker(
        folder, backfill=backfill, pause_s=0.05, deadline_s=deadline_s, worker=worker
    )


def test_a_second_run_of_the_command_sends_what_the_first_could_not(tmp_path, store):
    backfill_times: list[int] = []

    def backfill(time_ms: int):
        backfill_times.append(time_ms)
        return backfill_jobs(store, time_ms)

    first = tracker_with(tmp_path, UNAVAILABLE, backfill, deadline_s=1.0)
    first.metrics(2, {"success": 0.75})
    deadline = time.monotonic() + 300
    while first.problem is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    problem, *unsent = first.close("FINISHED")
    assert "connection refused" in problem
    assert unsent == [
        "not recorded: metrics of iterations 2 to 2",
        "run the same command again to record what the run's store holds",
    ]
    assert backfill_times == []  # the store is not read while the server is unavailable
    (tmp_path / "mlflow.log").unlink()

    second = tracker_with(tmp_path, AVAILABLE, backfill)
    second.params({"seed": "0"})
    assert second.close("FINISHED") == []
    assert len(backfill_times) == 1
    log_lines = (tmp_path / "mlflow.log").read_text().splitlines()
    (metrics,) = [line for line in log_lines if line.startswith("Metrics(")]  # one request
    assert all(f"'success': {value}" in metrics for value in (0.5, 0.75))
    assert sum(line.startswith("Episodes(") for line in log_lines) == 5


def test_new_values_take_precedence_over_the_backfill(tmp_path, store):
    tracker = tracker_with(tmp_path, AVAILABLE, lambda time_ms: backfill_jobs(store, time_ms))
    tracker.metrics(2, {"success": 0.8, "seconds/update": 1.5})
    tracker.params({"seed": "0"})
    tracker.metrics(1, {"seconds/update": 2.5})
    assert tracker.close("FINISHED") == []
    assert "'seconds/update': 2.5" in (tmp_path / "mlflow.log").read_text()


def test_an_unreadable_store_is_reported_and_new_records_are_still_sent(tmp_path):
    def failing_backfill(time_ms: int):
        raise StoreError(f"iterations/: refused at {time_ms > 0}")

    tracker = tracker_with(tmp_path, AVAILABLE, failing_backfill)
    tracker.metrics(1, {"success": 0.5})
    assert tracker.close("FINISHED") == [
        "earlier records of the run could not be read: iterations/: refused at True"
    ]
    assert "'success': 0.5" in (tmp_path / "mlflow.log").read_text()
