import asyncio

from virtual_time import now, virtual_time

from agentrl_operator.controller.work_queue import WorkQueue


async def test_a_key_is_queued_once_however_often_it_is_added():
    queue = WorkQueue(max_polls_per_second=20.0)
    queue.add("a")
    queue.add("b")
    queue.add("a")

    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@virtual_time
async def test_a_key_added_while_processed_is_queued_again_after_done():
    queue = WorkQueue(max_polls_per_second=20.0)
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
    queue = WorkQueue(max_polls_per_second=20.0)
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    queue.add_after("b", 5)
    queue.cancel("b")

    assert (await queue.get(), now()) == ("a", 5.0)
    await asyncio.sleep(100)
    assert len(queue) == 0


@virtual_time
async def test_a_delay_of_zero_queues_at_once():
    queue = WorkQueue(max_polls_per_second=20.0)
    queue.add_after("a", 0)

    assert (await queue.get(), now()) == ("a", 0.0)


@virtual_time
async def test_polls_are_stretched_by_one_factor_if_they_are_too_many():
    queue = WorkQueue(max_polls_per_second=0.5)
    queue.poll_after("stops", 1)  # once a second is twice as often as allowed
    assert (await queue.get(), now()) == ("stops", 2.0)
    queue.done("stops")

    queue.poll_after("works", 2)  # together 1.5 a second: three times as often
    queue.poll_after("stops", 1)
    assert (await queue.get(), now()) == ("stops", 5.0)
    assert (await queue.get(), now()) == ("works", 8.0)


@virtual_time
async def test_keys_that_do_not_poll_any_more_do_not_count_as_polls():
    queue = WorkQueue(max_polls_per_second=0.5)
    for key in ("ended", "due", "polls"):
        queue.poll_after(key, 2)
    queue.cancel("ended")
    queue.add_after("due", 100)
    queue.poll_after("polls", 2)

    assert (await queue.get(), now()) == ("polls", 2.0)
    assert (await queue.get(), now()) == ("due", 100.0)
