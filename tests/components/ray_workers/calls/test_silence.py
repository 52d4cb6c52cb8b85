"""Actors that live, and work on calls, but get no further."""

import time
from itertools import count

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
from agentrl_components.sharded.process_group import TIMEOUT
from agentrl_components.spec import Environment

pytest.importorskip("ray")


@pytest.fixture
def start(ray):
    """Starts actors that answer, or never do."""
    started = []

    class Worker:
        def __init__(self):
            self.number, self.notes, self.times = 0, (), 0

        def progress(self):
            notes, self.notes = self.notes, ()
            self.number += self.times > 0
            return Progress(self.number, notes)

        def work_until_asked(self, note):
            self.notes = (note,)
            while self.notes:
                time.sleep(0.1)
                self.number += 1
            return note

        def work(self, times):
            """Until it was asked so many times, at each of which it has got further."""
            self.times = times
            while self.number < times:
                time.sleep(0.1)
            return times

        def hang(self):
            while True:
                time.sleep(1)

        def dies(self):
            import os

            os._exit(1)

    def start():
        started.append(ray.remote(Worker).options(num_cpus=0, max_concurrency=2).remote())
        return started[-1]

    yield start
    for actor in started:
        ray.kill(actor)


def watch_of_asking(silent_s):
    """A watch whose seconds are questions: a machine that is slow makes nobody silent."""
    return SilenceWatch(silent_s, ask_s=0.2, clock=count().__next__)


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
        0: actors[0].hang.remote(),
        2: actors[2].work.remote(3),  # longer than an actor may be silent
        3: actors[3].dies.remote(),
    }
    found = watch_of_asking(silent_s=1.0).outcomes(actors, calls)
    assert list(found) == [0, 2, 3]
    assert str(found[0]) == "a process of the run has sampled nothing for 1 s"
    assert found[2] == 3
    assert isinstance(found[3], WorkersLostError)


def test_a_silent_actor_is_an_error_of_those_who_need_the_results_of_all(start):
    silent, busy, other = start(), start(), start()
    watch = watch_of_asking(silent_s=0.5)
    assert watch.results([busy], [busy.work.remote(1)], [other.work.remote(0)]) == [1, 0]
    with pytest.raises(WorkersLostError, match=r"has sampled nothing for 0\.5 s"):
        watch.results([silent, busy], [silent.hang.remote(), busy.work.remote(1)])


def test_notes_of_actors_that_work_are_in_the_log_of_the_driver_once(start, caplog):
    actors = {4: start()}
    note = "environment lights hangs"
    calls = {4: actors[4].work_until_asked.remote(note)}
    assert SilenceWatch(silent_s=60.0, ask_s=0.2).outcomes(actors, calls) == {4: note}
    assert [one.message for one in caplog.records] == [f"sampler-4: {note}"]


class Actors:
    """Stand for actors, and for the clock: at each time some have got somewhere, others do not
    answer."""

    def __init__(self):
        self.time, self.done = 0.0, {}

    def ask(self, actors, _limit_s):
        return {place: Progress(self.done[place]) for place in actors if place in self.done}

    def watch(self):
        return SilenceWatch(silent_s=100.0, ask_s=10.0, clock=lambda: self.time, ask=self.ask)

    def silent(self, watch, time, done, began):
        """The silent ones at a time. Of actor N the oldest call began at `began[N]`."""
        self.time, self.done = time, done
        return watch.silent(dict.fromkeys(began, "an actor"), began)


def test_an_actor_that_had_nothing_to_do_was_not_silent():
    actors = Actors()
    watch = actors.watch()
    for time_s in range(10, 120, 10):  # is at 5 from 10 on
        assert actors.silent(watch, time_s, {0: 5}, began={0: 0}) == []
    assert actors.silent(watch, 120, {0: 5}, began={0: 115}) == []  # its first call had ended
    assert actors.silent(watch, 130, {0: 5}, began={0: 0}) == [0]


def test_an_actor_that_gets_further_in_time_is_not_silent():
    actors = Actors()
    watch = actors.watch()
    for time_s in range(10, 400, 10):
        done = {0: time_s // 100, 1: 0 if time_s < 200 else 1}
        wanted = [] if time_s <= 110 or 200 <= time_s <= 300 else [1]
        assert actors.silent(watch, time_s, done, began={0: 0, 1: 0}) == wanted


def test_time_in_which_nobody_asked_is_no_silence_of_an_actor_that_does_not_answer():
    """Regression: after a long evaluation one answer that took too long ended a sampler."""
    actors = Actors()
    watch = actors.watch()
    assert actors.silent(watch, 10, {0: 5, 1: 5}, began={0: 0, 1: 0}) == []
    # Nobody asks for 3,000 s. Actor 1 answers then, and has got no further.
    assert actors.silent(watch, 3010, {1: 5}, began={0: 0, 1: 0}) == [1]
    for time_s in range(3020, 3120, 10):
        assert actors.silent(watch, time_s, {}, began={0: 0}) == []
    assert actors.silent(watch, 3120, {}, began={0: 0}) == [0]


def test_an_actor_that_never_answers_is_silent():
    actors = Actors()
    watch = actors.watch()
    for time_s in range(10, 120, 10):
        assert actors.silent(watch, time_s, {}, began={0: 0}) == []
    assert actors.silent(watch, 120, {}, began={0: 0}) == [0]
