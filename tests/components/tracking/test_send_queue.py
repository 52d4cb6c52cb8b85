"""The queue is bounded and never drops metrics."""

import threading
from pathlib import Path

from agentrl_components.tracking.send_queue import (
    MAX_EPISODE_BATCHES,
    Artifact,
    Episodes,
    Metrics,
    Model,
    Params,
    SendQueue,
    describe,
)


def test_metrics_of_an_iteration_are_merged() -> None:
    queue = SendQueue()
    queue.metrics(3, 1000, {"success": 0.5})
    queue.metrics(4, 1100, {"success": 0.6})
    queue.metrics(3, 1200, {"loss": 0.1})
    assert queue.take() == Metrics(
        iterations={3: (1000, {"success": 0.5, "loss": 0.1}), 4: (1100, {"success": 0.6})}
    )


def test_a_long_outage_becomes_few_jobs() -> None:
    queue = SendQueue()
    for iteration in range(250):
        queue.metrics(iteration, 0, {"success": 0.5})
    queue.close()
    jobs = [queue.take() for _ in range(4)]
    assert [len(job.iterations) if isinstance(job, Metrics) else job for job in jobs] == [
        100,
        100,
        50,
        None,
    ]


def test_a_returned_job_comes_first_and_newer_values_take_precedence() -> None:
    queue = SendQueue()
    queue.metrics(3, 1000, {"success": 0.5, "loss": 0.2})
    job = queue.take()
    assert job is not None
    queue.metrics(3, 1200, {"success": 0.75})
    queue.metrics(4, 1300, {"success": 1.0})
    queue.put_back(job)
    assert queue.take() == Metrics(
        iterations={3: (1000, {"success": 0.75, "loss": 0.2}), 4: (1300, {"success": 1.0})}
    )


def test_the_oldest_episodes_are_dropped_and_counted() -> None:
    queue = SendQueue()
    for iteration in range(MAX_EPISODE_BATCHES + 3):
        queue.episodes(iteration, "train", 0, [])
    assert queue.dropped == 3
    assert queue.take() == Episodes(iteration=3, name="train", time_ms=0, episodes=())


def test_a_job_that_failed_comes_after_later_ones_and_after_those_of_other_kinds() -> None:
    queue = SendQueue()
    file = Artifact(path=Path("a"))
    for iteration in (1, 2):
        queue.episodes(iteration, "train", 0, [])
    failed = queue.take()
    assert failed is not None
    queue.add(file)
    queue.put_back(failed, behind=True)
    later = Episodes(iteration=2, name="train", time_ms=0, episodes=())
    assert [queue.take(), queue.take(), queue.take()] == [file, later, failed]


def test_an_episode_batch_that_failed_is_dropped_first_from_a_full_queue() -> None:
    queue = SendQueue()
    queue.episodes(0, "train", 0, [])
    failed = queue.take()
    assert failed is not None
    for iteration in range(1, MAX_EPISODE_BATCHES + 1):
        queue.episodes(iteration, "train", 0, [])
    queue.put_back(failed, behind=True)
    assert queue.dropped == 1
    assert queue.take() == Episodes(iteration=1, name="train", time_ms=0, episodes=())


def test_files_and_models_are_queued_once_in_order() -> None:
    queue = SendQueue()
    first, second = Artifact(path=Path("a")), Model(folder=Path("m"), name="agent")
    for job in (first, second, first):
        queue.add(job)
    queue.params({"seed": "0"})
    queue.params({"model": "tiny"})
    queue.close()
    assert queue.take() == Params(values={"seed": "0", "model": "tiny"})
    assert [queue.take(), queue.take(), queue.take()] == [first, second, None]


def test_drain_describes_the_remaining_jobs() -> None:
    queue = SendQueue()
    queue.params({"seed": "0"})
    queue.metrics(3, 0, {})
    queue.metrics(9, 0, {})
    queue.episodes(4, "heldout", 0, [])
    queue.add(Artifact(path=Path("/run/curve.png")))
    queue.add(Model(folder=Path("m"), name="agent"))
    assert queue.drain() == [
        "the run's parameters",
        "metrics of iterations 3 to 9",
        "0 episodes of iteration 4 (heldout)",
        "file curve.png",
        "model agent",
    ]
    assert queue.drain() == []
    assert describe(Params(values={})) == "the run's parameters"


def test_close_wakes_a_waiting_thread() -> None:
    queue = SendQueue()
    taken: list[object] = []
    waiter = threading.Thread(target=lambda: taken.append(queue.take()))
    waiter.start()
    queue.close()
    waiter.join(300)
    assert taken == [None]
    queue.wait_closed(60)
