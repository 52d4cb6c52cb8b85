"""The election between processes, with Leases in memory and short durations."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from agentrl_operator.errors import KubernetesError
from agentrl_operator.leadership import Leadership, identity
from agentrl_operator.lease import Name, Timing
from agentrl_operator.memory_leases import MemoryLeases
from agentrl_operator.term import Term

NAME = Name(namespace="kubeflow", name="agentrl")
TIMING = Timing(duration_s=2)


class Line:
    """To Kubernetes; it can be cut."""

    def __init__(self, leases):
        self.leases = leases
        self.cut = False

    async def read(self, name):
        self._carried()
        return await self.leases.read(name)

    async def write(self, name, holder, duration_s, over):
        self._carried()
        return await self.leases.write(name, holder, duration_s, over)

    def _carried(self):
        if self.cut:
            raise KubernetesError("Kubernetes: no route to host")


class Operator:
    """One process."""

    def __init__(self, leases, me):
        self.line = Line(leases)
        self.term = Term()
        self.waited_for = []
        self.lost_at = None
        self.leadership = Leadership(
            self.line, NAME, self.term, timing=TIMING, me=me, lost=self._lost
        )

    def _lost(self):
        assert self.lost_at is None
        self.lost_at = time.monotonic()

    @asynccontextmanager
    async def running(self):
        async with self.leadership.campaign(self.waited_for.append):
            yield

    async def acts(self, within_s=5.0):
        async with asyncio.timeout(within_s):
            await self.leadership.held.wait()
        return time.monotonic()


@pytest.fixture
def leases():
    return MemoryLeases()


async def until(wanted, within_s=5.0):
    async with asyncio.timeout(within_s):
        while not wanted():
            await asyncio.sleep(0.01)


async def test_the_second_waits_and_takes_at_once_what_the_first_gives_back(leases):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        await first.acts()
        assert first.term.open
        async with second.running():
            await until(lambda: second.waited_for)
            assert set(second.waited_for) == {"first"}
            assert not second.term.open
            began = time.monotonic()
            await first.leadership.step_down()
            assert not first.term.open
            assert await second.acts() - began < 1.0
            assert second.term.open
            assert leases.records[NAME].transitions == 2
    assert leases.records[NAME].holder == ""
    assert (first.lost_at, second.lost_at) == (None, None)


async def test_it_is_kept_for_longer_than_its_duration(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        before = leases.records[NAME].version
        await asyncio.sleep(2.2)
        assert first.term.open
        assert leases.records[NAME].version != before
    assert first.lost_at is None


async def test_one_that_is_cut_off_ends_before_the_other_begins(leases, caplog):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        await first.acts()
        async with second.running():
            await until(lambda: second.waited_for)
            first.line.cut = True
            taken_at = await second.acts()
            assert first.lost_at is not None
            assert first.lost_at < taken_at
            assert not first.term.open
    assert "lost the lease kubeflow/agentrl (Kubernetes: no route to host)" in caplog.text


async def test_a_short_absence_of_kubernetes_costs_nothing(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        first.line.cut = True
        await asyncio.sleep(0.7)
        first.line.cut = False
        await asyncio.sleep(1.0)
        assert first.term.open
    assert first.lost_at is None


async def test_who_finds_another_ones_name_in_it_ends_at_once(leases, caplog):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        began = time.monotonic()
        leases.put(NAME, "usurper", 15, leases.records[NAME])
        await until(lambda: first.lost_at is not None)
        assert first.lost_at - began < TIMING.act_s
    assert leases.records[NAME].holder == "usurper"
    assert "(usurper holds it)" in caplog.text


async def test_a_version_that_someone_else_wrote_is_renewed_all_the_same(leases):
    """Such as an annotation that was put on the Lease."""
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        leases.put(NAME, "first", 2, leases.records[NAME])
        await asyncio.sleep(1.0)
        assert first.term.open
    assert leases.records[NAME].holder == ""


async def test_where_an_answer_is_missing_it_is_left_to_run_out(leases, caplog):
    first = Operator(leases, "first")
    async with first.leadership.campaign(first.waited_for.append):
        await first.acts()
        with first.term.change("KFP: POST runs"):
            await first.leadership.step_down(0.05)
    assert leases.records[NAME].holder == "first"
    assert "an answer is missing" in caplog.text


async def test_nothing_is_said_of_the_holder_while_kubernetes_does_not_answer(leases):
    leases.put(NAME, "other", 15, None)
    second = Operator(leases, "second")
    second.line.cut = True
    async with second.running():
        await asyncio.sleep(0.2)
        assert second.waited_for == []
        second.line.cut = False
        await until(lambda: second.waited_for)
    assert leases.records[NAME].holder == "other"


async def test_a_bug_ends_the_process_too(caplog):
    def mistaken():
        raise ZeroDivisionError

    first = Operator(MemoryLeases(mistaken), "first")
    async with first.running():
        await until(lambda: first.lost_at is not None)
    assert "a bug: the lease kubeflow/agentrl is not looked after" in caplog.text


def test_each_process_has_a_name_of_its_own():
    assert identity() != identity()
