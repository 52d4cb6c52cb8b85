"""A thread pool that replaces hanging threads."""

import threading

import pytest

from agentrl_envs.calls.thread_pool import ThreadPool
from agentrl_envs.errors import SessionError


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


def test_submit_returns_results_and_errors():
    pool = ThreadPool(2, max_abandoned=2, name="t")
    assert [pool.submit(pow, 2, n).result(300) for n in range(8)] == [2**n for n in range(8)]
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(300)
    pool.close()


def test_a_call_that_raises_stop_iteration_fails_as_a_generator_does():
    """Regression: a coroutine that awaited the call waited for ever."""
    pool = ThreadPool(1, max_abandoned=0, name="t")
    with pytest.raises(RuntimeError, match="the call raised StopIteration"):
        pool.submit(next, iter(())).result(300)
    pool.close()


def test_abandoned_thread_is_replaced(gate):
    pool = ThreadPool(1, max_abandoned=3, name="t")
    for count in range(1, 4):
        pool.abandon(hang(pool, gate))
        assert pool.abandoned == count
        assert pool.submit(pow, 2, 3).result(300) == 8
    assert not pool.exhausted
    pool.close()


def test_queued_call_runs_in_the_replacement_thread(gate):
    pool = ThreadPool(1, max_abandoned=1, name="t")
    hanging = hang(pool, gate)
    waiting = pool.submit(pow, 2, 3)
    pool.abandon(hanging)
    assert waiting.result(300) == 8
    pool.close()


def test_pool_is_exhausted_until_its_hanging_calls_return(gate):
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


def test_abandoning_a_queued_call_cancels_it(gate):
    pool = ThreadPool(1, max_abandoned=1, name="t")
    hanging = hang(pool, gate)
    waiting = pool.submit(pow, 2, 3)
    pool.abandon(waiting)
    assert waiting.cancelled()
    assert pool.abandoned == 0
    gate.set()
    hanging.result(300)
    pool.close()


def test_closed_pool_refuses_calls():
    pool = ThreadPool(1, max_abandoned=1, name="t")
    pool.close()
    with pytest.raises(SessionError, match="shutting down"):
        pool.submit(pow, 2, 3)


def test_calls_up_to_the_size_run_at_the_same_time_also_while_threads_take_items():
    size = 8
    for _ in range(200):
        pool = ThreadPool(size, max_abandoned=0, name="t")
        together = threading.Barrier(size, timeout=300)
        # Each call waits for all others, so none may be queued behind a busy thread.
        calls = [pool.submit(together.wait) for _ in range(size)]
        assert sorted(call.result(10) for call in calls) == list(range(size))
        pool.close()
