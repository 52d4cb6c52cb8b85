"""How long a condition of each run has held."""

from agentrl_operator.controller.condition_timer import ConditionTimer


def test_time_is_counted_from_the_first_observation_without_an_interruption():
    now = 10.0
    timer = ConditionTimer(lambda: now)
    assert timer.update("a", observed=False) is None
    assert timer.update("a", observed=True) == 0.0
    now = 17.0
    assert timer.update("a", observed=True) == 7.0
    assert timer.update("b", observed=True) == 0.0
    assert timer.update("a", observed=False) is None
    now = 20.0
    assert timer.update("a", observed=True) == 0.0
    assert timer.update("b", observed=True) == 3.0


def test_a_run_that_is_forgotten_is_counted_anew():
    now = 0.0
    timer = ConditionTimer(lambda: now)
    timer.update("a", observed=True)
    now = 5.0
    timer.forget("a")
    assert timer.update("a", observed=True) == 0.0
    timer.forget("unknown")
