"""Calls that are made again if their actor dies, or gets no further."""

import time
from itertools import count

import pytest

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.silence import Progress, SilenceWatch
from agentrl_components.ray_workers.calls.under_way import ATTEMPTS, CallsUnderWay

pytest.importorskip("ray")


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
    calls = CallsUnderWay(pool, SilenceWatch())
    for place in range(2):
        calls.start(10 + place, place, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 2:
        ended += calls.wait()
    assert sorted(ended) == [(10, "waited"), (11, "touched")]


def test_a_call_that_kills_every_actor_is_given_up_without_another_actor(ray):
    pool = Pool([dies()], [dies() for _ in range(ATTEMPTS - 1)])
    calls = CallsUnderWay(pool, SilenceWatch())
    calls.start(0, 0, "play")
    with pytest.raises(WorkersLostError, match=r"given up: .* died on Ray: its node died"):
        calls.wait()
    assert pool.spare == []


def test_an_actor_with_several_calls_is_replaced_once(ray, tmp_path):
    pool = Pool([dies()], [touches()])
    calls = CallsUnderWay(pool, SilenceWatch())
    for key in range(2):
        calls.start(key, 0, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 2:
        ended += calls.wait()
    assert sorted(ended) == [(0, "touched"), (1, "touched")]


def test_actors_that_die_at_the_same_time_are_replaced_together(ray, tmp_path):
    """As those of one machine."""
    for one in [touches().play.remote(tmp_path / "made") for _ in range(3)]:
        ray.get(one)  # now Ray has processes for three
    pool = Pool([dies(), dies(), touches()], [touches(), touches()])
    calls = CallsUnderWay(pool, SilenceWatch())
    for place in range(3):
        calls.start(place, place, "play", tmp_path / "made")
    ended = calls.wait()
    while len(ended) < 3:
        ended += calls.wait()
    assert sorted(ended) == [(place, "touched") for place in range(3)]
    assert pool.replaced == [2]


def test_calls_that_have_ended_are_known_without_waiting_for_others(ray, tmp_path):
    calls = CallsUnderWay(Pool([touches(), waits()], []), SilenceWatch())
    calls.start(0, 0, "play", tmp_path / "first")
    calls.start(1, 1, "play", tmp_path / "second")
    deadline = time.monotonic() + 20
    while not (ended := calls.poll()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended == [(0, "touched")]
    assert calls.poll() == []
    (tmp_path / "second").touch()
    assert calls.wait() == [(1, "waited")]


def test_an_actor_that_lives_but_gets_no_further_is_replaced(ray, tmp_path):
    class Player:
        def __init__(self, steps):
            self.steps, self.number = steps, 0

        def progress(self):
            self.number += self.steps  # since it was asked last
            return Progress(self.number)

        def play(self, path):
            deadline = time.monotonic() + 30  # for code that never replaces the other one
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            while not self.steps:  # stuck
                time.sleep(1)
            return "played"

    player = ray.remote(Player).options(num_cpus=0, max_concurrency=2)
    busy, stuck, spare = player.remote(1), player.remote(0), player.remote(1)
    (tmp_path / "stuck").touch()
    pool = Pool([busy, stuck], [spare])
    asking = SilenceWatch(silent_s=1.5, ask_s=0.3, clock=count().__next__)  # seconds are questions
    calls = CallsUnderWay(pool, asking)
    calls.start(0, 0, "play", tmp_path / "made")
    calls.start(1, 1, "play", tmp_path / "stuck")
    assert calls.wait() == [(1, "played")]
    (tmp_path / "made").touch()
    assert calls.wait() == [(0, "played")]
    assert pool.replaced == [1]
    for one in (busy, stuck, spare):
        ray.kill(one)
