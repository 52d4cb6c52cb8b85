"""A simulated run in a cluster where Kueue admits whole runs."""

from world import UID, World

from agentrl_operator.manifests import workload
from agentrl_pipelines.platform.config import Kueue, Mlflow, Platform

PLATFORM = Platform(tracking=Mlflow(uri="http://mlflow.test"), kueue=Kueue(admission="run"))
NAME = "demo-6a1b2c3d-workload"
CLASS = "kueue.x-k8s.io/priority-class"
KUEUE_EVENTS = ("admit", "admit", "evict", "preempted for a node", "deactivate", "activate")


class QueuedWorld(World):
    """A simulation of a run that names a queue."""

    def __init__(self, **spec):
        super().__init__(PLATFORM, compute={"queue": "training"}, **spec)

    @property
    def queued(self):
        found = self.cluster.resources.get(self.key)
        return found is not None and "queue" in found["spec"]["compute"]

    @property
    def kueue(self):
        return self.cluster.kueue

    @property
    def workload(self):
        return self.kueue.get("kubeflow", NAME)

    def holds(self, kind):
        return self.workload is not None and workload.is_true(self.workload, kind)

    async def reconcile(self, times=1):
        for _ in range(times):
            admitted = self.holds("Admitted") and not self.holds("Evicted")
            may_start = admitted or not self.queued
            before = len(self.kfp.submitted), set(self.cluster.servers(UID))
            await super().reconcile()
            assert may_start or before[0] == len(self.kfp.submitted), "started, not admitted"
            assert may_start or set(self.cluster.servers(UID)) <= before[1], "served, not admitted"

    def check(self):
        super().check()
        if self.kfp.working and self.workload is not None:
            assert self.holds("QuotaReserved"), "quota was given back from under work"
            assert not self.holds("Finished")

    async def apply(self, event):
        match event:
            case "admit":
                self.kueue.admit()
            case "evict":
                self.kueue.evict()
            case "preempted for a node":
                self.kueue.evict("NodeFailures", "a node broke")
            case "deactivate":
                self.kueue.activate(False)
            case "activate":
                self.kueue.activate(True)
            case _:
                await super().apply(event)

    def let_others_act(self):
        self.kueue.activate(True)
        self.kueue.admit()


async def evicted(world):
    world.kueue.evict()
    await world.reconcile()
    world.stop_work()
    await world.reconcile(4)
    assert not world.holds("QuotaReserved")
