import asyncio

import pytest
from virtual_time import now, virtual_time

from agentrl_operator.clients.breaker import Breaker


class Service:
    """A service behind a breaker, which answers or does not."""

    def __init__(self, wait_s=30.0):
        self.breaker, self.sent, self.answers = Breaker(), 0, False
        self.wait_s = wait_s

    async def ask(self, name="kfp"):
        with self.breaker.request(name):
            self.sent += 1
            if not self.answers:
                await asyncio.sleep(self.wait_s)
                raise TimeoutError("no answer")

    async def ask_in_vain(self, count=1, match="no answer"):
        for _ in range(count):
            with pytest.raises(TimeoutError, match=match):
                await self.ask()


@virtual_time
async def test_after_three_missing_answers_requests_fail_at_once_and_one_is_tried_after_a_pause():
    service = Service()
    await service.ask_in_vain(3)
    assert now() == 90
    await service.ask_in_vain(100, "not sent")
    assert (now(), service.sent) == (90, 3)

    await asyncio.sleep(10)
    trial = asyncio.create_task(service.ask_in_vain())
    await asyncio.sleep(1)
    await service.ask_in_vain(100, "not sent")
    await trial
    assert (now(), service.sent) == (130, 4)
    await service.ask_in_vain(1, "not sent")

    await asyncio.sleep(10)
    service.answers = True
    for _ in range(10):
        await service.ask()
    assert (now(), service.sent) == (140, 14)


@virtual_time
async def test_an_answer_between_missing_ones_shows_that_the_service_works():
    service = Service()
    for _ in range(5):
        await service.ask_in_vain(2)
        service.answers = True
        await service.ask()
        service.answers = False
    assert service.sent == 15


@virtual_time
async def test_a_request_that_is_refused_at_once_holds_nobody_and_is_sent_each_time():
    service = Service(wait_s=0.0)
    await service.ask_in_vain(10)
    assert service.sent == 10


@virtual_time
async def test_other_services_are_asked_while_one_does_not_answer():
    service = Service()
    await service.ask_in_vain(3)
    service.answers = True
    await service.ask("mlflow")
    await service.ask_in_vain(1, "not sent")


@virtual_time
async def test_a_cancelled_trial_is_followed_by_another():
    service = Service()
    await service.ask_in_vain(3)
    await asyncio.sleep(10)
    trial = asyncio.create_task(service.ask())
    await asyncio.sleep(1)
    trial.cancel()
    await asyncio.wait([trial])
    service.answers = True
    await service.ask()
    assert service.sent == 5
