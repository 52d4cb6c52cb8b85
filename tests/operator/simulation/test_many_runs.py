"""Many runs beside each other: how often they are reconciled, and what one of them waits for."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from virtual_time import now, virtual_time
from world import SPEC, World

from agentrl_operator.clients.breaker import Breaker
from agentrl_operator.clients.http import HttpClient
from agentrl_operator.errors import KfpError
from agentrl_operator.testing.memory import MemoryKfp

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
ELSEWHERE = {"environments": [{"name": "babyai", "url": "http://babyai.test"}]}
"""Environments without servers that the operator would have to watch."""


class ManyRuns(World):
    """Runs without servers, which `controller.run_workers` reconciles in virtual time. They poll
    every 5 s, and the operator polls at most once a second."""

    max_polls_per_second = 1.0

    @property
    def time(self):
        return START + timedelta(seconds=now())

    @time.setter
    def time(self, value):
        """Ignored: time passes by itself."""

    def __init__(self, count):
        super().__init__(**ELSEWHERE)
        del self.cluster.resources[self.key]
        self.keys = [
            self.cluster.add(f"run-{n}", "kubeflow", f"6a1b2c3d-0000-4000-8000-{n:012}", spec)
            for n, spec in enumerate([SPEC | ELSEWHERE] * count, start=1000)
        ]

    def show(self, keys):
        for key in keys:
            self.controller.run_changed(self.cluster.body(key))

    async def settle(self):
        """Show all runs to the operator, and wait until their work has started."""
        self.show(self.keys)
        await asyncio.sleep(100)
        assert len(self.kfp.working) == len(self.keys)

    def edit(self, keys, **changes):
        for key in keys:
            self.cluster.edit(key, **changes)
        self.show(keys)

    def states(self, keys):
        return {self.cluster.resources[key]["status"]["state"] for key in keys}

    def reasons(self):
        """The reasons of the condition Progressing of all runs."""
        conditions = [
            one for run in self.cluster.resources.values() for one in run["status"]["conditions"]
        ]
        return {one["reason"] for one in conditions if one["type"] == "Progressing"}

    async def reconciled_in(self, seconds):
        """How many reconciliations there are in so many seconds."""
        before = self.reconciled()
        await asyncio.sleep(seconds)
        return self.reconciled() - before

    def reconciled(self):
        samples = self.controller.metrics.reconciles.collect()[0].samples
        return sum(one.value for one in samples if one.name.endswith("_total"))


class Answer:
    """An empty response."""

    status = 200

    async def read(self):
        return b"{}"


class SometimesSilent:
    """A KFP whose reads are requests, and an HTTP session to it. While it is `silent`, it accepts
    connections and does not answer."""

    connector = None

    def __init__(self, kfp):
        self._kfp, self.silent = kfp, False
        self.http = HttpClient(
            "KFP", KfpError, timeout_s=30, session=lambda: self, breaker=Breaker()
        )

    def __getattr__(self, name):
        return getattr(self._kfp, name)

    @asynccontextmanager
    async def request(self, *_, timeout, **__):
        if self.silent:
            await asyncio.sleep(timeout.total)
            raise TimeoutError
        yield Answer()

    async def get_run(self, run_id):
        await self.http.send("GET", "http://kfp.test/run", name="run")
        return await self._kfp.get_run(run_id)

    async def list_runs(self, experiment, namespace):
        await self.http.send("GET", "http://kfp.test/runs", name="runs")
        return await self._kfp.list_runs(experiment, namespace)


class WithSilentKfp(ManyRuns):
    """Many runs and few workers, beside a KFP that may fall silent."""

    workers = 4
    max_polls_per_second = 2.0

    def restart(self):
        if isinstance(self.kfp, MemoryKfp):
            self.kfp = SometimesSilent(self.kfp)
        super().restart()


@virtual_time
async def test_a_kfp_that_never_answers_does_not_hold_all_workers():
    world = WithSilentKfp(40)  # 4 workers that wait for 30 s each would need 5 minutes for a round
    async with world.controller.run_workers():
        await world.settle()
        before = world.kfp.http.requests
        world.kfp.silent = True
        await asyncio.sleep(120)
        assert world.kfp.http.requests - before < 10
        first = world.keys[0]
        world.cluster.delete(first, "2026-11-21T12:05:00Z")
        world.show([first])
        world.edit(world.keys[1:2], seed=-1)
        await asyncio.sleep(60)
        assert first not in world.cluster.resources
        assert world.reasons() == {"KfpUnavailable"}
        accepted = {
            key: one["status"]
            for key in world.keys[1:]
            for one in world.cluster.resources[key]["status"]["conditions"]
            if one["type"] == "Accepted"
        }
        assert [key for key, status in accepted.items() if status == "False"] == world.keys[1:2]

        world.kfp.silent = False
        await asyncio.sleep(60)
        assert world.reasons() == {"Running", "InvalidSpec"}


@virtual_time
async def test_suspended_runs_do_not_slow_down_those_that_work():
    world = ManyRuns(21)
    async with world.controller.run_workers():
        await world.settle()
        world.edit(world.keys[1:], suspend=True)
        await asyncio.sleep(60)
        world.stop_work()
        await asyncio.sleep(60)
        assert world.states(world.keys[1:]) == {"Suspended"}

        assert await world.reconciled_in(60) == 12


@virtual_time
async def test_polls_have_a_limit_whatever_the_runs_wait_for():
    world = ManyRuns(20)  # with polls every 5 s: 4 a second
    async with world.controller.run_workers():
        await world.settle()
        assert await world.reconciled_in(60) == pytest.approx(60, abs=2)
        world.kfp.down = True
        await asyncio.sleep(60)
        assert world.reasons() == {"KfpUnavailable"}
        assert await world.reconciled_in(60) == pytest.approx(60, abs=2)


@virtual_time
async def test_a_run_whose_backoff_is_over_starts_in_time_beside_many_others():
    world = ManyRuns(20)  # each is looked at every 20 s
    async with world.controller.run_workers():
        await world.settle()
        world.kfp.end(next(iter(world.kfp.working)), "FAILED")
        while "BackingOff" not in world.reasons():
            await asyncio.sleep(1)
        assert len(world.kfp.working) == 19
        await asyncio.sleep(10)
        assert len(world.kfp.working) == 20
