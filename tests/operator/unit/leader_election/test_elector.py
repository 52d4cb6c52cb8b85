"""The election between processes, with Leases in memory and a simulated clock."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from virtual_time import now, virtual_time

from agentrl_operator.clients.write_gate import WriteGate
from agentrl_operator.errors import KubernetesError
from agentrl_operator.leader_election.election import LeaseName
from agentrl_operator.leader_election.elector import LeaderElector, new_identity
from agentrl_operator.testing.memory_leases import MemoryLeases

NAME = LeaseName(namespace="kubeflow", name="agentrl")


class Connection:
    """A connection to Kubernetes that can be cut."""

    def __init__(self, leases):
        self.leases = leases
        self.cut = False

    async def get(self, name):
        self._check()
        return await self.leases.get(name)

    async def update(self, name, holder, duration_s, observed):
        self._check()
        return await self.leases.update(name, holder, duration_s, observed)

    def _check(self):
        if self.cut:
            raise KubernetesError("Kubernetes: no route to host")


class Operator:
    """One process of the election."""

    def __init__(self, leases, identity):
        self.connection = Connection(leases)
        self.gate = WriteGate(now)
        self.leaders_seen = []
        self.exited_at = None
        self.elector = LeaderElector(
            self.connection,
            NAME,
            self.gate,
            identity=identity,
            clock=now,
            on_stopped_leading=self._exit,
        )

    def _exit(self):
        """A real process ends here; this one is cut off instead."""
        self.connection.cut = True
        if self.exited_at is None:
            self.exited_at = now()

    @asynccontextmanager
    async def running(self):
        async with self.elector.campaign(self.leaders_seen.append):
            yield

    async def leads(self):
        """Wait until it is the leader. Returns the time at which it became the leader."""
        await self.elector.leading.wait()
        return now()


@pytest.fixture
def leases():
    return MemoryLeases()


@virtual_time
async def test_the_second_acquires_a_released_lease_at_its_next_attempt(
    leases,
):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        assert await first.leads() == 0.0
        assert first.gate.is_open
        async with second.running():
            await asyncio.sleep(7.5)
            assert set(second.leaders_seen) == {"first"}
            assert not second.gate.is_open
            await first.elector.step_down()
            assert not first.gate.is_open
            assert await second.leads() == 8.0
            assert second.gate.is_open
            assert leases.records[NAME].transitions == 2
    assert leases.records[NAME].holder == ""
    assert (first.exited_at, second.exited_at) == (None, None)


@virtual_time
async def test_the_lease_is_renewed_every_three_seconds_and_kept_beyond_its_duration(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.leads()
        await asyncio.sleep(61.0)
        assert first.gate.is_open
        assert leases.records[NAME].version == "21"
    assert first.exited_at is None


@virtual_time
async def test_a_leader_that_is_cut_off_stops_before_the_other_starts(leases, caplog):
    first, second = Operator(leases, "first"), Operator(leases, "second")
    async with first.running():
        await first.leads()
        async with second.running():
            await asyncio.sleep(0.5)
            first.connection.cut = True
            assert await second.leads() == 15.0
            assert first.exited_at == 10.0
            assert not first.gate.is_open
    assert "lost lease kubeflow/agentrl (Kubernetes: no route to host)" in caplog.text


@virtual_time
async def test_an_outage_of_kubernetes_below_ten_seconds_does_not_end_leadership(leases):
    first = Operator(leases, "first")
    async with first.running():
        await first.leads()
        first.connection.cut = True
        await asyncio.sleep(8.5)
        first.connection.cut = False
        await asyncio.sleep(20.0)
        assert first.gate.is_open
    assert first.exited_at is None


@virtual_time
async def test_a_leader_that_finds_another_holder_exits_at_once(leases, caplog):
    first = Operator(leases, "first")
    async with first.running():
        await first.leads()
        leases.put(NAME, "usurper", 15, leases.records[NAME])
        await asyncio.sleep(5.0)
        assert first.exited_at == 3.0
    assert leases.records[NAME].holder == "usurper"
    assert "(its holder is usurper)" in caplog.text


@virtual_time
async def test_a_lease_that_somebody_else_updated_without_a_new_holder_is_renewed(leases):
    """For example, an annotation was added to the Lease."""
    first = Operator(leases, "first")
    async with first.running():
        await first.leads()
        leases.put(NAME, "first", 15, leases.records[NAME])
        await asyncio.sleep(20.0)
        assert first.gate.is_open
    assert leases.records[NAME].holder == ""


@virtual_time
async def test_the_lease_is_left_to_expire_where_a_response_is_missing(leases, caplog):
    first = Operator(leases, "first")
    async with first.running():
        await first.leads()
        with first.gate.write("KFP: POST runs"):
            await first.elector.step_down(10.0)
        assert now() == 10.0
    assert leases.records[NAME].holder == "first"
    assert "a response is missing" in caplog.text


@virtual_time
async def test_the_leader_is_not_reported_while_kubernetes_does_not_answer(leases):
    leases.put(NAME, "other", 15, None)
    second = Operator(leases, "second")
    second.connection.cut = True
    async with second.running():
        await asyncio.sleep(20.5)
        assert second.leaders_seen == []
        second.connection.cut = False
        await asyncio.sleep(1.0)
        assert second.leaders_seen == ["other"]
    assert leases.records[NAME].holder == "other"


@virtual_time
async def test_an_internal_error_ends_the_process(caplog):
    def fails():
        raise ZeroDivisionError

    first = Operator(MemoryLeases(fails), "first")
    async with first.running():
        await asyncio.sleep(1.0)
        assert first.exited_at == 0.0
    assert "internal error: lease kubeflow/agentrl is not renewed" in caplog.text


def test_each_process_has_its_own_identity():
    assert new_identity() != new_identity()
