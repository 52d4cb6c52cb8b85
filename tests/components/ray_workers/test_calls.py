"""Which of Ray's errors stand for a process that died."""

import pytest

from agentrl_components.ray_workers.calls import is_lost_process

pytest.importorskip("ray")


def test_an_actor_that_the_memory_monitor_killed_counts_as_a_lost_process():
    from ray.exceptions import OutOfMemoryError

    assert is_lost_process(OutOfMemoryError("1 worker(s) were killed due to the node running low"))


def test_dead_actors_nodes_and_lost_objects_count_as_lost_processes():
    from ray.exceptions import (
        ActorDiedError,
        ActorUnavailableError,
        NodeDiedError,
        OwnerDiedError,
    )

    assert is_lost_process(ActorDiedError())
    assert is_lost_process(ActorUnavailableError("the connection broke", None))
    assert is_lost_process(NodeDiedError("the node died"))
    assert is_lost_process(OwnerDiedError("0" * 56, None, ""))


def test_cancelled_calls_and_errors_of_the_code_are_no_lost_processes():
    from ray.exceptions import TaskCancelledError

    assert not is_lost_process(TaskCancelledError())
    assert not is_lost_process(ValueError("a mistake"))
