"""A simulation of one run and its dependencies in memory, with events that can happen to them."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from flaky import ERRORS, WRITES, Flaky

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import RunState
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.controller import Controller
from agentrl_operator.controller.watches import pass_deployment
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp
from agentrl_operator.testing.memory_stores import MemoryStores, MemoryTracking
from agentrl_pipelines.platform.config import Mlflow, Platform

UID = "6a1b2c3d-0000-4000-8000-000000000001"
PLATFORM = Platform(tracking=Mlflow(uri="http://mlflow.test"))
SPEC = {
    "environments": [{"name": "babyai", "builtin": "babyai"}],
    "horizon": {
        "phases": [
            {"maxTurns": 3, "iterations": 2},
            {"maxTurns": 6, "iterations": 2},
            {"maxTurns": 9, "iterations": 2},
        ],
    },
    "backoffLimit": 100,
}
EXTERNAL = [{"name": "babyai", "url": "http://babyai.test"}]
"""Environments whose servers are not the operator's."""
STORE = "s3://mlpipeline/agentrl/kubeflow/demo-6a1b2c3d"


class World:
    """A run, its dependencies, and an operator that can be restarted."""

    max_polls_per_second = 20.0
    workers = 16

    def __init__(self, platform=PLATFORM, **spec):
        self.platform = platform
        self.kfp = MemoryKfp()
        self.cluster = MemoryCluster(self.kfp)
        self.stores = MemoryStores()
        self.tracking = MemoryTracking()
        self.time = datetime(2026, 11, 21, 12, tzinfo=UTC)
        self.key = self.cluster.add("demo", "kubeflow", UID, SPEC | spec)
        self.older = [{}]
        self.shown = set()
        first = self.cluster.resources[self.key]["spec"]["environments"][0]
        self.managed = not first.keys() & {"url", "backend"}  # it has a Deployment
        self.failures, self.broken = {}, {}
        self.restart()

    def restart(self):
        self.controller = Controller(
            Clients(
                cluster=Flaky(self.cluster, "cluster", self.failures, self.broken),
                pipelines=Flaky(self.kfp, "pipelines", self.failures, self.broken),
                stores=Flaky(self.stores, "stores", self.failures, self.broken),
                tracking=Flaky(self.tracking, "tracking", self.failures, self.broken),
                bind=lambda run, uid, platform, queued: {"queued": queued},
            ),
            self.platform,
            now=lambda: self.time,
            clock=lambda: self.time.timestamp(),
            workers=self.workers,
            max_polls_per_second=self.max_polls_per_second,
        )

    async def reconcile(self, times=1):
        for _ in range(times):
            self.watch()
            there = self.cluster.servers(UID).values()
            served = [one.ready and one.settled for one in there]
            submitted = len(self.kfp.submitted)
            await self.controller.reconcile(self.key)
            ready = all(served) and bool(served or not self.managed)
            assert ready or len(self.kfp.submitted) == submitted, "started without its servers"
            self.check()

    def watch(self):
        """Pass everything that is watched to the operator."""
        if self.key in self.cluster.resources:
            self.controller.run_changed(self.cluster.body(self.key))
        self.cluster.deployments.step()
        there = {
            pass_deployment(self.controller, body)[1] for body in self.cluster.deployment_bodies()
        }
        for name in self.shown - there:
            self.controller.servers_changed(UID, name, None)
        self.shown = there

    def check(self):
        posted = [one.run_id for one in self.kfp.submitted]
        again = Counter(posted) - Counter(set(posted))
        assert again <= Counter(self.kfp.deleted), "a run was posted twice"
        assert len(self.kfp.working) + len(self.kfp.ending) <= 1, "two attempts at work at once"
        phases = [one.parameters["phase"] for one in self.kfp.submitted]
        assert phases == sorted(phases), "a phase was gone back to"
        if self.key in self.cluster.resources and self.status.get("completionTime"):
            assert not self.cluster.servers(UID), "ended, but its servers were not removed"

    @property
    def status(self):
        return self.cluster.resources[self.key].get("status", {})

    def conditions(self):
        return {one["type"]: (one["status"], one["reason"]) for one in self.status["conditions"]}

    def pass_time(self, seconds):
        self.time += timedelta(seconds=seconds)

    def finish_phase(self, state="SUCCEEDED"):
        """End all working KFP runs with this state, with a decision if they succeeded."""
        for run_id in list(self.kfp.working):
            phase = next(
                one.parameters["phase"] for one in self.kfp.submitted if one.run_id == run_id
            )
            run_data = self.stores.run(STORE)
            if state == "SUCCEEDED":
                action = "advance" if phase < 2 else "finish"
                run_data.decisions[phase] = Decision(
                    action=action, phase=min(phase + 1, 2), max_turns=3, reason=""
                )
            run_data.state = RunState(status="running", phase=phase, iteration=2 * phase + 2)
            self.kfp.end(run_id, state)

    def stop_work(self):
        """End the KFP runs that are being terminated."""
        for run_id in list(self.kfp.working):
            if self.kfp.states.get(run_id) == "CANCELING":
                self.kfp.end(run_id, "FAILED")
        self.kfp.ending.clear()

    async def apply(self, event):
        match event:
            case "reconcile":
                await self.reconcile()
            case "time":
                self.pass_time(20)
            case "long time":
                self.pass_time(400)
            case "phase done":
                self.finish_phase()
            case "phase failed":
                self.finish_phase("FAILED")
            case "stopped":
                self.stop_work()
            case "suspend":
                self.cluster.edit(self.key, suspend=True)
            case "resume":
                self.cluster.edit(self.key, suspend=False)
            case "manifest invalid":
                self.cluster.edit(self.key, seed=-1)
            case "manifest valid":
                self.cluster.edit(self.key, seed=0)
            case "operator killed":
                self.restart()
            case "status lost":
                self.cluster.lose_status(self.key)
            case "status old":
                self.cluster.lose_status(self.key, self.older[len(self.older) // 2])
            case "kfp run deleted":
                for run_id in self.kfp.working & self.kfp.states.keys():
                    self.kfp.delete(run_id)
            case "workflow lost":
                self.kfp.working.clear()
            case "servers deleted":
                self.cluster.children.clear()
            case "servers not ready":
                servers = self.cluster.servers(UID)
                self.cluster.ready_servers = dict.fromkeys(servers, 0)
            case "servers ready":
                self.cluster.ready_servers.clear()
            case "new servers do not start":
                self.cluster.deployments.new_pods_start = False
            case "deployments are not observed":
                self.cluster.deployments.observes = False
            case "deployments are observed":
                self.cluster.deployments.observes = self.cluster.deployments.new_pods_start = True
            case "answers lost":
                self.kfp.loses_responses = not self.kfp.loses_responses
            case (client, method):
                self.failures[client, method] = ERRORS[client]
            case _:
                name = event.removesuffix(" down")
                neighbour = getattr(self, name)
                neighbour.down = not neighbour.down
        self.older.append(dict(self.status))

    def repair(self):
        """Repair all dependencies and resume the run."""
        for neighbour in (self.kfp, self.cluster, self.stores, self.tracking):
            neighbour.down = False
        self.kfp.loses_responses = False
        self.cluster.ready_servers.clear()
        self.cluster.deployments.observes = self.cluster.deployments.new_pods_start = True
        self.cluster.edit(self.key, suspend=False, seed=0)

    async def run_to_end(self):
        """Repair all dependencies and reconcile until the run has ended."""
        self.repair()
        for _ in range(400):
            self.let_others_act()
            await self.reconcile()
            if self.status.get("state") in ("Succeeded", "Failed"):
                return
            self.stop_work()
            self.finish_phase()
            self.pass_time(61)

    def let_others_act(self):
        """What other controllers do between two reconciliations when nothing fails."""

    async def apply_all(self, events):
        """Apply each event and reconcile after it."""
        for event in events:
            await self.apply(event)
            await self.reconcile()

    def delete(self):
        """Request the deletion of the run."""
        self.cluster.delete(self.key, self.time.strftime("%Y-%m-%dT%H:%M:%SZ"))

    async def delete_and_wait(self):
        """Delete the run and reconcile for up to four minutes."""
        self.cluster.down = self.stores.down = False
        self.delete()
        for _ in range(120):
            await self.reconcile()
            if self.key not in self.cluster.resources:
                return
            self.stop_work()
            self.pass_time(2)


EVENTS = (
    "reconcile",
    "time",
    "long time",
    "phase done",
    "phase failed",
    "stopped",
    "suspend",
    "resume",
    "manifest invalid",
    "manifest valid",
    "operator killed",
    "status lost",
    "status old",
    "kfp run deleted",
    "workflow lost",
    "servers deleted",
    "servers not ready",
    "servers ready",
    "new servers do not start",
    "deployments are not observed",
    "deployments are observed",
    "answers lost",
    "kfp down",
    "cluster down",
    "stores down",
    "tracking down",
)

FAILURES = tuple((client, method) for client, methods in WRITES.items() for method in methods)
"""Events: the next call of a client's method fails, and the one after it succeeds."""
