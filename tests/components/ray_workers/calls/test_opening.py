from itertools import repeat

from agentrl_components.ray_workers.calls.opening import OpeningNotes


def notes(seconds, waiting):
    """What is noted when actors are checked at these seconds."""
    said = []
    clock = iter((100.0, *(100.0 + second for second in seconds)))
    check = OpeningNotes("samplers", 4, said.append, clock=lambda: next(clock))
    for calls in waiting:
        check(calls)
    return said


def test_actors_that_open_within_a_minute_are_not_noted():
    assert notes([1.0, 30.0, 59.0], repeat("ab", 3)) == []


def test_the_first_note_comes_after_a_minute_and_further_ones_after_twice_the_time():
    assert notes(
        [59.0, 61.0, 90.0, 119.0, 120.0, 130.0, 241.0], ["abcd", *repeat("ab", 5), "a"]
    ) == [
        "2 of 4 samplers have opened the model in 61 s",
        "2 of 4 samplers have opened the model in 120 s",
        "3 of 4 samplers have opened the model in 241 s",
    ]
