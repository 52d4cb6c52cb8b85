import asyncio

from virtual_time import now, virtual_time

from agentrl_operator.controller.work_queue import WorkQueue


async def test_a_key_is_queued_once_however_often_it_is_added():
    queue = WorkQueue()
    queue.add("a")
    queue.add("b")
    queue.add("a")

    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@virtual_time
async def test_a_key_added_while_processed_is_queued_again_after_done():
    queue = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    other = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not other.done()

    queue.done("a")

    assert await other == "a"


@virtual_time
async def test_a_second_delay_replaces_the_first_and_can_be_cancelled():
    queue = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    queue.add_after("b", 5)
    queue.cancel("b")

    assert (await queue.get(), now()) == ("a", 5.0)
    await asyncio.sleep(100)
    assert len(queue) == 0


@virtual_time
async def test_a_delay_of_zero_queues_at_once():
    queue = WorkQueue()
    queue.add_after("a", 0)

    assert (await queue.get(), now()) == ("a", 0.0)
