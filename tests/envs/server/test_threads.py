"""A pool whose hanging threads are replaced."""

import threading

import pytest

from agentrl_envs.errors import SessionError
from agentrl_envs.server.threads import ThreadPool


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def hang(pool: ThreadPool, gate: threading.Event):
    began = threading.Event()

    def call() -> None:
        began.set()
        gate.wait()

    future = pool.submit(call)
    assert began.wait(300)
    return future


def test_results_and_errors_come_back():
    pool = ThreadPool(2, max_abandoned=2, name="t")
    assert [pool.submit(pow, 2, n).result(300) for n in range(8)] == [2**n for n in range(8)]
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(300)
    pool.close()


def test_an_abandoned_call_is_replaced_by_another_thread(gate):
    pool = ThreadPool(1, max_abandoned=3, name="t")
    for count in range(1, 4):
        pool.abandon(hang(pool, gate))
        assert pool.abandoned == count
        assert pool.submit(pow, 2, 3).result(300) == 8
    assert not pool.exhausted
    pool.close()


def test_a_call_that_waits_gets_the_thread_that_replaces_a_hanging_one(gate):
    pool = ThreadPool(1, max_abandoned=1, name="t")
    hanging = hang(pool, gate)
    waiting = pool.submit(pow, 2, 3)
    pool.abandon(hanging)
    assert waiting.result(300) == 8
    pool.close()


def test_more_hanging_calls_than_allowed_exhaust_the_pool_until_they_return(gate):
    pool = ThreadPool(1, max_abandoned=1, name="t")
    hanging = [hang(pool, gate)]
    pool.abandon(hanging[0])
    hanging.append(hang(pool, gate))
    pool.abandon(hanging[1])
    assert pool.exhausted
    with pytest.raises(SessionError, match="2 calls into the environment have not returned"):
        pool.submit(pow, 2, 3)
    gate.set()
    for future in hanging:
        future.result(300)
    assert pool.abandoned == 0
    assert pool.submit(pow, 2, 3).result(300) == 8
    pool.close()


def test_a_call_that_has_not_started_is_cancelled(gate):
    pool = ThreadPool(1, max_abandoned=1, name="t")
    hanging = hang(pool, gate)
    waiting = pool.submit(pow, 2, 3)
    pool.abandon(waiting)
    assert waiting.cancelled()
    assert pool.abandoned == 0
    gate.set()
    hanging.result(300)
    pool.close()


def test_a_closed_pool_takes_no_calls():
    pool = ThreadPool(1, max_abandoned=1, name="t")
    pool.close()
    with pytest.raises(SessionError, match="shutting down"):
        pool.submit(pow, 2, 3)
