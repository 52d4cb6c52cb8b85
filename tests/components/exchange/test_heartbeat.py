"""How a process waits for the other one of its run."""

import itertools

import pytest

from agentrl_components.exchange.heartbeat import Heartbeat
from agentrl_components.storage.memory import MemoryStore


class Clock:
    """Takes the place of `time.sleep`, and keeps the delays."""

    def __init__(self):
        self.delays = []

    def __call__(self, seconds):
        self.delays.append(seconds)


def after(polls):
    """A condition that is true after so many polls."""
    count = itertools.count()
    return lambda: "there" if next(count) == polls else None


def test_delays_between_polls_double_up_to_a_second():
    sleep = Clock()
    heartbeat = Heartbeat(MemoryStore(), "rollout", sleep=sleep)
    assert heartbeat.wait_for(after(8)) == "there"
    assert sleep.delays == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])


def test_every_wait_begins_with_short_delays():
    sleep = Clock()
    heartbeat = Heartbeat(MemoryStore(), "update", sleep=sleep)
    heartbeat.wait_for(after(2))
    heartbeat.wait_for(after(0))
    heartbeat.wait_for(after(1))
    assert sleep.delays == pytest.approx([0.05, 0.1, 0.05])
