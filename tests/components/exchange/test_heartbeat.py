"""How a process waits for the other one of its run."""

import itertools
import threading

import pytest

from agentrl_components.errors import RunError, StoreError
from agentrl_components.exchange.heartbeat import Heartbeat, announce, forget
from agentrl_components.storage import keys
from agentrl_components.storage.memory import MemoryStore
from agentrl_components.storage.records import RunState


class Clock:
    """Takes the place of `time.sleep` and `time.monotonic`, and keeps the delays."""

    def __init__(self, limit_s=3600):
        self.delays = []
        self._now, self._limit_s = 0.0, limit_s

    def __call__(self, seconds):
        self.delays.append(seconds)
        self._now += seconds
        assert self._now < self._limit_s, "it waits for ever"

    def now(self):
        return self._now


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


def waiting(store, clock, **options):
    """The heartbeat of the process that plays, which waits for the one that trains."""
    return Heartbeat(store, "rollout", sleep=clock, clock=clock.now, **options)


def never():
    return None


def test_a_wait_ends_if_the_other_process_has_failed_for_good():
    store, clock = MemoryStore(), Clock()
    failed = RunState(status="failed", message="out of memory", final=True)
    store.replace(keys.STATE, failed.model_dump_json().encode())
    with pytest.raises(RunError, match="update has failed for good: out of memory"):
        waiting(store, clock, interval_s=5.0).wait_for(never)
    assert 5.0 <= clock.now() <= 6.0


def test_a_failure_that_is_retried_does_not_end_a_wait():
    store, clock = MemoryStore(), Clock()
    store.replace(keys.STATE, RunState(status="failed").model_dump_json().encode())
    assert waiting(store, clock).wait_for(after(100)) == "there"


def test_a_wait_ends_if_the_other_process_sends_no_heartbeat_for_too_long():
    store, clock = MemoryStore(), Clock()
    announce(store, "update")
    store.replace(keys.heartbeat("rollout"), b"1 1")
    with pytest.raises(RunError, match=r"^update has sent no heartbeat for 1800 s$"):
        waiting(store, clock).wait_for(never)
    assert 1800 < clock.now() <= 1820


def test_a_process_that_has_not_started_is_waited_for_and_named_every_five_minutes():
    """3400 s are 11 times 5 minutes and 100 s."""
    store, clock, notes = MemoryStore(), Clock(), []
    store.replace(keys.heartbeat("rollout"), b"1 1")
    heartbeat = waiting(store, clock, note=notes.append)
    assert heartbeat.wait_for(lambda: "there" if clock.now() > 3400 else None) == "there"
    assert len(notes) == 11
    assert notes[0] == (
        "update has not started for 5 min: its pod may wait for a node, an image or a quota; "
        "rollout waits for it"
    )
    assert notes[-1].startswith("update has not started for 55 min")


def test_the_limit_counts_from_the_start_of_a_process_that_was_waited_for():
    store, clock = MemoryStore(), Clock(limit_s=10_000)

    def condition():
        if clock.now() > 7200 and not store.exists(keys.heartbeat("update")):
            announce(store, "update")

    with pytest.raises(RunError, match="update has sent no heartbeat for 1800 s"):
        waiting(store, clock).wait_for(condition)
    assert 9000 < clock.now() <= 9020


def test_heartbeats_of_an_earlier_attempt_are_forgotten_before_the_next_one():
    store, clock = MemoryStore(), Clock()
    for role in ("rollout", "update"):
        announce(store, role)
    forget(store)
    assert store.objects == {}
    heartbeat = waiting(store, clock)
    assert heartbeat.wait_for(lambda: "there" if clock.now() > 3400 else None) == "there"


def test_a_wait_goes_on_while_the_heartbeat_changes():
    store, clock = MemoryStore(), Clock()
    polls = itertools.count()

    def condition():
        count = next(polls)
        if clock.now() % 50 < 1:
            store.replace(keys.heartbeat("update"), f"1 {count}".encode())
        return "there" if clock.now() > 1000 else None

    assert waiting(store, clock, timeout_s=100.0).wait_for(condition) == "there"


class BrokenStore(MemoryStore):
    """Cannot be written to at first."""

    def __init__(self):
        super().__init__()
        self.values = []
        self.enough = threading.Event()

    def replace(self, key, data):
        self.values.append((key, data))
        if len(self.values) == 1:
            raise StoreError("not reachable")
        super().replace(key, data)
        if len(self.values) == 3:
            self.enough.set()


def test_heartbeats_differ_and_go_on_after_a_store_could_not_be_reached():
    store = BrokenStore()
    with Heartbeat(store, "update", interval_s=0.001):
        assert store.enough.wait(60)
    names, values = zip(*store.values, strict=True)
    assert set(names) == {keys.heartbeat("update")}
    assert len(set(values)) == len(values) >= 3
