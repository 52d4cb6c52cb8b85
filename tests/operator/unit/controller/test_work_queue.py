import asyncio

from timeless import now, timeless

from agentrl_operator.controller.work_queue import WorkQueue


async def test_a_key_waits_once_however_often_it_is_added():
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.add("a")

    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@timeless
async def test_a_key_that_is_worked_on_comes_again_only_when_it_is_done():
    queue = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    other = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not other.done()

    queue.done("a")

    assert await other == "a"


@timeless
async def test_a_later_time_replaces_the_one_before_and_can_be_taken_back():
    queue = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    queue.add_after("b", 5)
    queue.cancel("b")

    assert (await queue.get(), now()) == ("a", 5.0)
    await asyncio.sleep(100)
    assert len(queue) == 0


@timeless
async def test_no_time_at_all_means_now():
    queue = WorkQueue()
    queue.add_after("a", 0)

    assert (await queue.get(), now()) == ("a", 0.0)
