"""The remaining time is that of the iterations that are left, at the speed of recent ones."""

from agentrl_components.run.progress import TimeLeft


def test_the_remaining_time_is_the_mean_of_the_iterations_so_far_for_each_one_left():
    left = TimeLeft()
    assert left.estimate(9, 2.0) == 18.0
    assert left.estimate(8, 4.0) == 24.0  # of 3 s each
    assert left.estimate(7, 9.0) == 35.0  # of 5 s each
    assert left.estimate(0, 1.0) == 0.0


def test_the_remaining_time_is_estimated_from_the_last_twenty_iterations():
    left = TimeLeft()
    left.estimate(30, 100.0)
    for _ in range(18):
        left.estimate(30, 1.0)
    assert left.estimate(10, 21.0) == 69.5  # (100 + 18 * 1 + 21) / 20 is 6.95
    assert left.estimate(10, 1.0) == 20.0  # (19 * 1 + 21) / 20 is 2
