"""Which of Ray's errors stand for a process that died, and calls that are made again."""

import os
import time

import pytest
from ray_bench import reserved

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls import (
    ATTEMPTS,
    REASON_LENGTH,
    CallsUnderWay,
    is_lost_process,
    reason_of,
    results,
    stream,
)
from agentrl_components.ray_workers.cluster import connect

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def ray():
    import ray

    disconnect = connect("embedded", reserved())
    yield ray
    disconnect()


class Actor:
    """Answers with what its `result` function returns in a process of Ray."""

    def __init__(self, result):
        self.result = result
        self.play = self

    def remote(self, *arguments):
        import ray

        return ray.remote(self.result).options(num_cpus=0, max_retries=0).remote(*arguments)


class Pool:
    """Replaces actors that die by those of a list, which may be too short."""

    def __init__(self, actors, spare):
        self.actors, self.spare = list(actors), list(spare)
        self.replaced = []
        """How many lost actors each call of `replace` was about."""

    def replace(self, lost):
        self.replaced.append(len(lost))
        for one in lost:
            if self.actors[one.place] is one.actor:
                self.actors[one.place] = self.spare.pop(0)

    def given_up(self, death):
        return WorkersLostError(f"given up: {death}")


def dies():
    def die(*arguments):
        from ray.exceptions import NodeDiedError

        raise NodeDiedError("its node died")

    return Actor(die)


def touches():
    def touch(path):
        path.touch()
        return "touched"

    return Actor(touch)


def waits():
    def wait(path):
        deadline = time.monotonic() + 30  # for code that never makes the file
        while not path.exists():
            if time.monotonic() > deadline:
                raise ValueError("no other call was made in time")
            time.sleep(0.05)
        return "waited"

    return Actor(wait)


def test_the_call_of_an_actor_that_died_is_made_again_before_earlier_calls_have_ended(
    ray, tmp_path
):
    pool = Pool([waits(), dies()], [touches()])
    calls = CallsUnderWay(pool)
    for place in range(2):
        calls.start(10 + place, place, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 2:
        ended += calls.wait()
    assert sorted(ended) == [(10, "waited"), (11, "touched")]


def test_a_call_that_kills_every_actor_is_given_up_without_another_actor(ray):
    pool = Pool([dies()], [dies() for _ in range(ATTEMPTS - 1)])
    calls = CallsUnderWay(pool)
    calls.start(0, 0, "play")
    with pytest.raises(WorkersLostError, match=r"given up: .* died on Ray: its node died"):
        calls.wait()
    assert pool.spare == []


def test_an_actor_with_several_calls_is_replaced_once(ray, tmp_path):
    pool = Pool([dies()], [touches()])
    calls = CallsUnderWay(pool)
    for key in range(2):
        calls.start(key, 0, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 2:
        ended += calls.wait()
    assert sorted(ended) == [(0, "touched"), (1, "touched")]


def test_actors_that_die_at_the_same_time_are_replaced_together(ray, tmp_path):
    """As those of one machine."""
    pool = Pool([dies(), dies(), touches()], [touches(), touches()])
    calls = CallsUnderWay(pool)
    for place in range(3):
        calls.start(place, place, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 3:
        ended += calls.wait()
    assert sorted(ended) == [(place, "touched") for place in range(3)]
    assert pool.replaced == [2]


def test_calls_that_have_ended_are_known_without_waiting_for_others(ray, tmp_path):
    calls = CallsUnderWay(Pool([touches(), waits()], []))
    calls.start(0, 0, "play", tmp_path / "first")
    calls.start(1, 1, "play", tmp_path / "second")
    deadline = time.monotonic() + 20
    while not (ended := calls.poll()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended == [(0, "touched")]
    assert calls.poll() == []
    (tmp_path / "second").touch()
    assert calls.wait() == [(1, "waited")]


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
