"""A loop on a thread of its own, and callers on another loop."""

import asyncio
import threading

import pytest

from agentrl_components.workers.loop_thread import LoopThread


@pytest.fixture
def loop():
    loop = LoopThread()
    yield loop
    loop.close()


async def thread_of_a_coroutine():
    return threading.current_thread().name


async def failing():
    raise LookupError("of the coroutine")


def test_a_caller_on_another_loop_gets_the_result(loop):
    assert asyncio.run(loop.result(thread_of_a_coroutine())) == "loop"


def test_a_caller_on_another_loop_gets_the_error(loop):
    with pytest.raises(LookupError, match="of the coroutine"):
        asyncio.run(loop.result(failing()))


def test_a_caller_that_is_cancelled_ends_when_the_coroutine_has_cleaned_up(loop):
    begun, clean_up, events = threading.Event(), threading.Event(), []

    async def cleaning():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(clean_up.wait)
            events.append("cleaned up")

    async def cancelled():
        call = asyncio.create_task(loop.result(cleaning()))
        await asyncio.to_thread(begun.wait)
        call.cancel()
        ended, _ = await asyncio.wait([call], timeout=0.05)
        assert not ended
        clean_up.set()
        await asyncio.wait([call])
        assert call.cancelled()

    asyncio.run(cancelled())
    assert events == ["cleaned up"]


def test_a_coroutine_whose_caller_is_cancelled_before_it_begins_never_begins(loop):
    begun, busy = threading.Event(), threading.Event()
    loop.submit(blocking(begun, busy))
    assert begun.wait(60)
    events = []

    async def begins():
        events.append("begun")

    async def cancelled():
        call = asyncio.create_task(loop.result(begins()))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        busy.set()
        await asyncio.wait([call])
        assert call.cancelled()

    asyncio.run(cancelled())
    assert events == []


async def blocking(begun, busy):
    begun.set()
    busy.wait()
