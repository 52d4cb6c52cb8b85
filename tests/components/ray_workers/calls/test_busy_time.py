"""How long calls have been under way."""

from agentrl_components.ray_workers.calls.busy_time import BusyTime


def test_calls_at_the_same_time_count_once_and_one_goes_on_after_it_was_counted():
    times = iter([0, 1, 2, 3, 5, 6, 8, 10, 20])
    busy = BusyTime(lambda: float(next(times)))
    with busy.call():  # from 1
        with busy.call():  # 2 to 3
            pass
        assert busy.take() == (5.0, 4.0)
        with busy.call():  # 6 to 8
            pass
    assert busy.take() == (15.0, 5.0)  # the first call ended at 10
