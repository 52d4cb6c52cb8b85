"""Which errors stand for a process that died, and streams of results."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import (
    REASON_LENGTH,
    is_lost_process,
    reason_of,
    results,
    stream,
)

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


@pytest.mark.parametrize("kind", ["AcceleratorError", "DistBackendError", "DistStoreError"])
def test_a_failed_gpu_or_process_group_counts_as_a_lost_process(ray, kind):
    def fail():
        import torch

        raise getattr(torch, kind, None) or getattr(torch.distributed, kind)("ncclRemoteError")

    with pytest.raises(WorkersLostError, match="a process of the run failed"):
        results([ray.remote(fail).options(num_cpus=0).remote()])


def test_a_broken_connection_of_gloo_counts_as_a_lost_process(ray):
    def fail():
        from datetime import timedelta

        import torch
        from torch.distributed import AllreduceOptions, HashStore, ProcessGroupGloo

        store, limit = HashStore(), timedelta(seconds=60)
        with ThreadPoolExecutor(2) as ranks:
            groups = ranks.map(lambda rank: ProcessGroupGloo(store, rank, 2, limit), range(2))
        first, _ = groups
        options = AllreduceOptions()
        options.timeout = timedelta(seconds=0.1)
        first.allreduce([torch.ones(1)], options).wait()  # the other rank does not take part

    with pytest.raises(WorkersLostError, match=r"a process of the run failed: .*Timed out waiting"):
        results([ray.remote(fail).options(num_cpus=0).remote()])


def test_a_gpu_that_is_too_small_is_an_error_of_the_run(ray):
    def fail():
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        results([ray.remote(fail).options(num_cpus=0).remote()])


def test_the_reason_of_a_death_is_the_line_of_rays_error_that_says_it():
    from ray.exceptions import NodeDiedError, OutOfMemoryError

    died = NodeDiedError("The actor died.\n\tpid: 12\nIts node has died.")
    assert reason_of(died) == "Its node has died"
    killed = "1 worker(s) were killed due to the node running low on memory.\nRefer to the docs."
    assert reason_of(OutOfMemoryError(killed)) == (
        "1 worker(s) were killed due to the node running low on memory"
    )
    assert len(reason_of(NodeDiedError("word " * 200))) <= REASON_LENGTH


def test_cancelled_calls_and_errors_of_the_code_are_no_lost_processes():
    from ray.exceptions import TaskCancelledError

    assert not is_lost_process(TaskCancelledError())
    assert not is_lost_process(ValueError("a mistake"))


def streaming(ray, method, *arguments):
    """An actor and its streaming call."""

    class Streaming:  # defined here, so that Ray does not import this file in the actor
        def numbers(self, upto):
            for number in range(upto):  # noqa: UP028, Ray sends to the generator
                yield number

        def never(self):
            while True:
                time.sleep(0.1)
            yield

        def dies(self):
            os._exit(1)
            yield

    actor = ray.remote(Streaming).options(num_cpus=0).remote()
    return actor, getattr(actor, method).options(num_returns="streaming").remote(*arguments)


def test_a_stream_yields_what_comes_while_others_help(ray):
    _one, first = streaming(ray, "numbers", 3)
    _two, other = streaming(ray, "numbers", 0)
    assert [results([part])[0] for part in stream(first, [other])] == [0, 1, 2]


def test_a_stream_that_waits_for_an_actor_which_died_ends(ray):
    """As ranks wait in a collective call for one that is gone."""
    waiting, first = streaming(ray, "never")
    _dead, other = streaming(ray, "dies")
    with pytest.raises(WorkersLostError, match="a process of the run died"):
        list(stream(first, [other]))
    ray.kill(waiting)
