"""Actors that live, and work on calls, but get no further."""

import time

import pytest
from learner_bench import spec

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.silence import (
    ANSWER_S,
    ASK_S,
    SILENT_S,
    Progress,
    SilenceWatch,
    playing_s,
)
from agentrl_components.sharded.rank import TIMEOUT
from agentrl_components.spec import Environment

pytest.importorskip("ray")


@pytest.fixture
def start(ray):
    """Starts actors that answer, or never do."""
    started = []

    class Worker:
        def __init__(self):
            self.number, self.notes = 0, ()

        def progress(self):
            notes, self.notes = self.notes, ()
            return Progress(self.number, notes)

        def work_until_asked(self, note):
            self.notes = (note,)
            while self.notes:
                time.sleep(0.1)
                self.number += 1
            return note

        def work(self, steps):
            for _ in range(steps):
                time.sleep(0.2)
                self.number += 1
            while not steps:
                time.sleep(1)
            return steps

        def dies(self):
            import os

            os._exit(1)

    def start():
        started.append(ray.remote(Worker).options(num_cpus=0, max_concurrency=2).remote())
        return started[-1]

    yield start
    for actor in started:
        ray.kill(actor)


@pytest.mark.parametrize("timeout_s", [60.0, 3600.0])
def test_a_step_and_a_reset_that_use_their_time_are_no_silence(timeout_s):
    """Regression: a sampler was killed after 1,800 s, and `timeoutS` may be 3,600."""
    quick = Environment(name="quick", builtin="corridor")
    slow = Environment(name="slow", builtin="corridor", timeout_s=timeout_s)
    played = spec().model_copy(update={"environments": (slow, quick)})
    assert playing_s(played) == SILENT_S + 2 * timeout_s


def test_trainers_wait_for_each_other_until_a_silent_sampler_is_found():
    found_s = SILENT_S + 2 * (ASK_S + ANSWER_S)  # seen first, and found, by one round of asking
    assert TIMEOUT.total_seconds() > found_s


def test_calls_of_actors_that_get_no_further_or_die_are_lost_and_the_others_have_results(start):
    actors = {place: start() for place in (0, 2, 3)}
    calls = {
        0: actors[0].work.remote(0),
        2: actors[2].work.remote(12),  # longer than an actor may be silent
        3: actors[3].dies.remote(),
    }
    found = SilenceWatch(silent_s=1.0, ask_s=0.2).outcomes(actors, calls)
    assert list(found) == [0, 2, 3]
    assert str(found[0]) == "a process of the run has sampled nothing for 1 s"
    assert found[2] == 12
    assert isinstance(found[3], WorkersLostError)


def test_a_silent_actor_is_an_error_of_those_who_need_the_results_of_all(start):
    silent, busy, other = start(), start(), start()
    watch = SilenceWatch(silent_s=1.0, ask_s=0.2)
    assert watch.results([busy], [busy.work.remote(2)], [other.work.remote(1)]) == [2, 1]
    with pytest.raises(WorkersLostError, match="has sampled nothing for 1 s"):
        watch.results([silent, busy], [silent.work.remote(0), busy.work.remote(1)])


def test_notes_of_actors_that_work_are_in_the_log_of_the_driver_once(start, caplog):
    actors = {4: start()}
    note = "environment lights hangs"
    calls = {4: actors[4].work_until_asked.remote(note)}
    assert SilenceWatch(silent_s=60.0, ask_s=0.2).outcomes(actors, calls) == {4: note}
    assert [one.message for one in caplog.records] == [f"sampler-4: {note}"]


def test_an_actor_that_had_nothing_to_do_was_not_silent(start):
    actor = {0: start()}
    watch = SilenceWatch(silent_s=0.5, ask_s=0.0)
    first = {0: time.monotonic()}
    assert watch.silent(actor, first) == []
    time.sleep(0.8)
    assert watch.silent(actor, {0: time.monotonic()}) == []  # its first call had ended
    assert watch.silent(actor, first) == [0]
