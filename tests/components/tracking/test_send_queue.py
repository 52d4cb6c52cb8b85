"""What waits to be sent is bounded, and metrics are never lost."""

import threading
from pathlib import Path

from agentrl_components.tracking.send_queue import (
    EPISODES_WAITING,
    Artifact,
    Episodes,
    Metrics,
    Model,
    Outbox,
    Params,
    describe,
)


def test_numbers_of_an_iteration_wait_as_one() -> None:
    outbox = Outbox()
    outbox.metrics(3, 1000, {"success": 0.5})
    outbox.metrics(4, 1100, {"success": 0.6})
    outbox.metrics(3, 1200, {"loss": 0.1})
    assert outbox.take() == Metrics(
        iterations={3: (1000, {"success": 0.5, "loss": 0.1}), 4: (1100, {"success": 0.6})}
    )


def test_a_long_outage_becomes_a_few_jobs() -> None:
    outbox = Outbox()
    for iteration in range(250):
        outbox.metrics(iteration, 0, {"success": 0.5})
    outbox.close()
    jobs = [outbox.take() for _ in range(4)]
    assert [len(job.iterations) if isinstance(job, Metrics) else job for job in jobs] == [
        100,
        100,
        50,
        None,
    ]


def test_what_could_not_be_sent_comes_first_and_newer_numbers_win() -> None:
    outbox = Outbox()
    outbox.metrics(3, 1000, {"success": 0.5, "loss": 0.2})
    job = outbox.take()
    assert job is not None
    outbox.metrics(3, 1200, {"success": 0.75})
    outbox.metrics(4, 1300, {"success": 1.0})
    outbox.put_back(job)
    assert outbox.take() == Metrics(
        iterations={3: (1000, {"success": 0.75, "loss": 0.2}), 4: (1300, {"success": 1.0})}
    )


def test_the_oldest_episodes_are_dropped_and_counted() -> None:
    outbox = Outbox()
    for iteration in range(EPISODES_WAITING + 3):
        outbox.episodes(iteration, "train", 0, [])
    assert outbox.dropped == 3
    assert outbox.take() == Episodes(iteration=3, name="train", time_ms=0, episodes=())


def test_files_and_models_wait_once_in_order() -> None:
    outbox = Outbox()
    first, second = Artifact(path=Path("a")), Model(folder=Path("m"), name="agent")
    for job in (first, second, first):
        outbox.add(job)
    outbox.params({"seed": "0"})
    outbox.params({"model": "tiny"})
    outbox.close()
    assert outbox.take() == Params(values={"seed": "0", "model": "tiny"})
    assert [outbox.take(), outbox.take(), outbox.take()] == [first, second, None]


def test_what_is_left_is_told_in_words() -> None:
    outbox = Outbox()
    outbox.params({"seed": "0"})
    outbox.metrics(3, 0, {})
    outbox.metrics(9, 0, {})
    outbox.episodes(4, "heldout", 0, [])
    outbox.add(Artifact(path=Path("/run/curve.png")))
    outbox.add(Model(folder=Path("m"), name="agent"))
    assert outbox.left() == [
        "the run's parameters",
        "metrics of iterations 3 to 9",
        "0 episodes of iteration 4 (heldout)",
        "file curve.png",
        "model agent",
    ]
    assert outbox.left() == []
    assert describe(Params(values={})) == "the run's parameters"


def test_closing_wakes_who_waits() -> None:
    outbox = Outbox()
    taken: list[object] = []
    waiter = threading.Thread(target=lambda: taken.append(outbox.take()))
    waiter.start()
    outbox.close()
    waiter.join(300)
    assert taken == [None]
    outbox.wait_closed(60)
