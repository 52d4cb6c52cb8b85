"""For how long something has been observed of each run."""

from agentrl_operator.controller.durations import Durations


def test_time_is_counted_from_the_first_observation_without_an_interruption():
    now = 10.0
    durations = Durations(lambda: now)
    assert durations.update("a", observed=False) is None
    assert durations.update("a", observed=True) == 0.0
    now = 17.0
    assert durations.update("a", observed=True) == 7.0
    assert durations.update("b", observed=True) == 0.0
    assert durations.update("a", observed=False) is None
    now = 20.0
    assert durations.update("a", observed=True) == 0.0
    assert durations.update("b", observed=True) == 3.0


def test_a_run_that_is_forgotten_is_counted_anew():
    now = 0.0
    durations = Durations(lambda: now)
    durations.update("a", observed=True)
    now = 5.0
    durations.forget("a")
    assert durations.update("a", observed=True) == 0.0
    durations.forget("unknown")
