"""The rate limit, on a clock that the test moves."""

from agentrl_envs.environments.search.retrieval.rate_limit import RateLimit


def test_requests_are_spaced_evenly():
    waits: list[float] = []
    limit = RateLimit(4.0, clock=lambda: 100.0, sleep=waits.append)
    for _ in range(4):
        limit.wait()
    assert waits == [0.25, 0.5, 0.75]


def test_time_that_has_passed_counts():
    now, waits = [100.0], []
    limit = RateLimit(4.0, clock=lambda: now[0], sleep=waits.append)
    for now[0] in (100.0, 100.1, 101.0):
        limit.wait()
    assert [round(wait, 6) for wait in waits] == [0.15]


def test_without_a_limit_nothing_waits():
    waits: list[float] = []
    RateLimit(0.0, clock=lambda: 1.0, sleep=waits.append).wait()
    assert waits == []
