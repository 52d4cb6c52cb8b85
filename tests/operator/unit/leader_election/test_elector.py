"""The election between processes, with Leases in memory and a clock that leaps."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from timeless import now, timeless

from agentrl_operator.clients.write_gate import Term
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import Name
from agentrl_operator.leader_election.elector import Leadership, identity
from agentrl_operator.testing.memory_leases import MemoryLeases

NAME = Name(namespace="kubeflow", name="agentrl")


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
        self.term = Term(now)
        self.waited_for = []
        self.lost_at = None
        self.leadership = Leadership(self.line, NAME, self.term, me=me, clock=now, lost=self._lost)

    def _lost(self):
        """A process ends here; of this one nobody hears any more."""
        self.line.cut = True
        if self.lost_at is None:
            self.lost_at = now()

    @asynccontextmanager
    async def running(self):
        async with self.leadership.campaign(self.waited_for.append):
            yield

    async def acts(self):
        """Wait until it does; the moment when it did."""
        await self.leadership.held.wait()
        return now()


@pytest.fixture
def leases():
    return MemoryLeases()


@timeless
async def test_the_second_waits_and_takes_at_its_next_look_what_the_first_gives_back(leases):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        assert await first.acts() == 0.0
        assert first.term.open
        async with second.running():
            await asyncio.sleep(7.5)
            assert set(second.waited_for) == {"first"}
            assert not second.term.open
            await first.leadership.step_down()
            assert not first.term.open
            assert await second.acts() == 8.0
            assert second.term.open
            assert leases.records[NAME].transitions == 2
    assert leases.records[NAME].holder == ""
    assert (first.lost_at, second.lost_at) == (None, None)


@timeless
async def test_it_is_kept_for_longer_than_its_duration_and_renewed_every_three_seconds(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        await asyncio.sleep(61.0)
        assert first.term.open
        assert leases.records[NAME].version == "21"
    assert first.lost_at is None


@timeless
async def test_one_that_is_cut_off_ends_before_the_other_begins(leases, caplog):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        await first.acts()
        async with second.running():
            await asyncio.sleep(0.5)
            first.line.cut = True
            assert await second.acts() == 15.0
            assert first.lost_at == 10.0
            assert not first.term.open
    assert "lost the lease kubeflow/agentrl (Kubernetes: no route to host)" in caplog.text


@timeless
async def test_an_absence_of_kubernetes_for_less_than_ten_seconds_costs_nothing(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        first.line.cut = True
        await asyncio.sleep(8.5)
        first.line.cut = False
        await asyncio.sleep(20.0)
        assert first.term.open
    assert first.lost_at is None


@timeless
async def test_who_finds_another_ones_name_in_it_ends_at_once(leases, caplog):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        leases.put(NAME, "usurper", 15, leases.records[NAME])
        await asyncio.sleep(5.0)
        assert first.lost_at == 3.0
    assert leases.records[NAME].holder == "usurper"
    assert "(usurper holds it)" in caplog.text


@timeless
async def test_a_version_that_someone_else_wrote_is_renewed_all_the_same(leases):
    """Such as an annotation that was put on the Lease."""
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        leases.put(NAME, "first", 15, leases.records[NAME])
        await asyncio.sleep(20.0)
        assert first.term.open
    assert leases.records[NAME].holder == ""


@timeless
async def test_where_an_answer_is_missing_it_is_left_to_run_out(leases, caplog):
    first = Operator(leases, "first")
    async with first.running():
        await first.acts()
        with first.term.change("KFP: POST runs"):
            await first.leadership.step_down(10.0)
        assert now() == 10.0
    assert leases.records[NAME].holder == "first"
    assert "an answer is missing" in caplog.text


@timeless
async def test_nothing_is_said_of_the_holder_while_kubernetes_does_not_answer(leases):
    leases.put(NAME, "other", 15, None)
    second = Operator(leases, "second")
    second.line.cut = True
    async with second.running():
        await asyncio.sleep(20.5)
        assert second.waited_for == []
        second.line.cut = False
        await asyncio.sleep(1.0)
        assert second.waited_for == ["other"]
    assert leases.records[NAME].holder == "other"


@timeless
async def test_a_bug_ends_the_process_too(caplog):
    def mistaken():
        raise ZeroDivisionError

    first = Operator(MemoryLeases(mistaken), "first")
    async with first.running():
        await asyncio.sleep(1.0)
        assert first.lost_at == 0.0
    assert "a bug: the lease kubeflow/agentrl is not looked after" in caplog.text


def test_each_process_has_a_name_of_its_own():
    assert identity() != identity()
