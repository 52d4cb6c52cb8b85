"""A namespace with queues of a real Kueue, and a running operator."""

import asyncio
from contextlib import asynccontextmanager

import kueue
from apiserver import PATIENCE_S
from cluster_runs import MERGE, RULES, condition, ready_servers, state, until, until_gone
from demo_run import SPEC
from kfp_stub import KfpStub

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import RunState
from agentrl_envs.server.run import running
from agentrl_operator.app import Options, operate
from agentrl_operator.clients.kfp import KfpApi
from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.testing.memory_stores import MemoryStores, MemoryTracking
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform import config

LAB = "lab"
RUNS = f"apis/agentrl.dev/v1alpha1/namespaces/{LAB}/agentrlruns"
WORKLOADS = f"{kueue.API}/namespaces/{LAB}/workloads"
CHECKS = f"{kueue.API}/admissionchecks"
DEPLOYMENTS = f"apis/apps/v1/namespaces/{LAB}/deployments"
QUEUED = SPEC | {
    "environments": [{"name": "babyai", "builtin": "babyai"}],
    "compute": {"queue": "training"},
    "backoffLimit": 0,
}
MAY = [
    *RULES,
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["patch"]},
]
ANYWHERE = [
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["resourceflavors", "workloadpriorityclasses"],
        "verbs": ["get"],
    },
]
CLASS = "kueue.x-k8s.io/priority-class"
ONE = {"cpu": "1250m", "memory": "4Gi"}
"""Quota for one trainer (1 core, 2 GiB) and one environment server (250m, 256 MiB)."""


def resource_group(*flavors, **quota):
    """The same quota of each flavor."""
    given = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    return {
        "coveredResources": list(quota),
        "flavors": [{"name": flavor, "resources": given} for flavor in flavors],
    }


def queues():
    """Four LocalQueues with quota (any nodes, for one run; spot nodes, then owned ones; nodes with
    an admission check; any nodes, for a Ray cluster but 250m) and two WorkloadPriorityClasses."""
    spot = {
        "nodeLabels": {"kind": "spot"},
        "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    }
    yield kind("ResourceFlavor", {"name": "default"})
    yield kind("ResourceFlavor", {"name": "spot"}, spec=spot)
    yield kind("ResourceFlavor", {"name": "owned"}, spec={"nodeLabels": {"kind": "owned"}})
    yield kind("AdmissionCheck", {"name": "room"}, spec={"controllerName": "agentrl.dev/lab"})
    for local, name, flavors, quota, checks in (
        ("training", "team", ("default",), ONE, []),
        ("mixed", "nodes", ("spot", "owned"), ONE, []),
        ("checked", "checked", ("default",), ONE, [{"name": "room"}]),
        ("rays", "rays", ("default",), {"cpu": "3500m", "memory": "8Gi"}, []),
    ):
        cluster_queue = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [resource_group(*flavors, **quota)],
        }
        if checks:
            cluster_queue["admissionChecksStrategy"] = {"admissionChecks": checks}
        yield kind("ClusterQueue", {"name": name}, spec=cluster_queue)
        meta = {"name": local, "namespace": LAB}
        yield kind("LocalQueue", meta, spec={"clusterQueue": name})
    for name, value in (("calm", 1), ("urgent", 100)):
        yield kind("WorkloadPriorityClass", {"name": name}, value=value)


def kind(name, metadata, **more):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": name, "metadata": metadata} | more


class Lab:
    """The operator's dependencies other than Kubernetes and Kueue, in memory."""

    def __init__(self, server):
        self.server = server
        self.stub, self.stores = KfpStub(), MemoryStores()

    @asynccontextmanager
    async def operating(self):
        cluster = KubernetesApi()
        with running(self.stub.app()) as url:
            pipelines = KfpApi(url, cluster)
            clients = Clients(
                cluster=cluster,
                pipelines=pipelines,
                stores=self.stores,
                tracking=MemoryTracking(),
                bind=phase_pipeline,
            )
            about = config.Platform(
                kfp=config.Kfp(namespace=LAB),
                kueue=config.Kueue(admission="run"),
                poll_seconds=0.2,
            )
            options = Options(namespaces=(LAB,), host="127.0.0.1", port=0, workers=4)
            stop, ready = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(operate(clients, about, options, stop=stop, ready=ready))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await ready.wait()
                async with ready_servers(self.server, LAB):
                    yield
                await self.cleared()
            finally:
                stop.set()
                async with asyncio.timeout(PATIENCE_S):
                    await task
                await pipelines.close()
                await cluster.close()
                await asyncio.sleep(0.05)  # Kopf's own connections say goodbye

    async def cleared(self):
        """Delete every run and check that no Workload is left."""
        for run in (await self.ask("GET", RUNS))["items"]:
            await self.ask("DELETE", f"{RUNS}/{run['metadata']['name']}")
            await until_gone(self.server, f"{RUNS}/{run['metadata']['name']}")
        assert (await self.ask("GET", WORKLOADS))["items"] == []

    async def ask(self, method, path, body=None, content=MERGE):
        return await asyncio.to_thread(self.server.ask, method, path, body, content)

    async def create(self, name, queue="training", compute=None, **labels):
        manifest = {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": name, "namespace": LAB, "labels": labels},
            "spec": QUEUED | {"compute": {"queue": queue} | (compute or {})},
        }
        return await asyncio.to_thread(self.server.create, manifest)

    async def until(self, name, wanted):
        return await until(self.server, name, wanted, runs=RUNS)

    async def workload(self, run):
        return await self.ask("GET", f"{WORKLOADS}/{named(run, 'workload')}")

    async def until_workload(self, run, **wanted):
        """Wait until the Workload has these conditions."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                body = await self.workload(run)
                if all(condition(body, kind).get("status") == wanted[kind] for kind in wanted):
                    return body
                await asyncio.sleep(0.05)

    async def until_usage(self, queue, **wanted):
        """Wait until all that a ClusterQueue has admitted uses so much of its only flavor."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                (flavor,) = (await self.ask("GET", queue))["status"]["flavorsUsage"]
                if {one["name"]: one["total"] for one in flavor["resources"]} == wanted:
                    return
                await asyncio.sleep(0.05)

    async def make_room(self, run, **update):
        """Set an admission check to Ready with these changes to pods until Kueue admits the run, as
        its controller does: Kueue may write the state that it had read before."""
        stamp = {"lastTransitionTime": "2026-11-21T12:00:00Z"}
        active = {"type": "Active", "status": "True", "reason": "Lab", "message": ""} | stamp
        await self.ask("PATCH", f"{CHECKS}/room/status", {"status": {"conditions": [active]}})
        path = f"{WORKLOADS}/{named(run, 'workload')}/status"
        async with asyncio.timeout(PATIENCE_S):
            while condition(body := await self.workload(run), "Admitted").get("status") != "True":
                states = [one["state"] for one in body.get("status", {}).get("admissionChecks", ())]
                if "Pending" in states:
                    names = [{"name": one["name"]} for one in body["spec"]["podSets"]]
                    ready = {"name": "room", "state": "Ready", "message": ""} | stamp
                    ready["podSetUpdates"] = [name | update for name in names]
                    await self.ask("PATCH", path, {"status": {"admissionChecks": [ready]}})
                await asyncio.sleep(0.05)

    def finish(self, run):
        """End the phase with the decision that it was the last."""
        name, uid = run["metadata"]["name"], run["metadata"]["uid"]
        run_data = self.stores.run(f"s3://mlpipeline/agentrl/{LAB}/{name}-{uid[:8]}")
        run_data.state = RunState(status="running", phase=0, iteration=2)
        run_data.decisions[0] = Decision(action="finish", phase=1, max_turns=6, reason="")
        self.stub.end(run["status"]["kfpRun"], "SUCCEEDED")

    def posted(self, run):
        """The KFP runs of a run, in order."""
        name = f"{run['metadata']['name']}:"
        return [one for one in self.stub.posted if one["display_name"].startswith(name)]

    def states(self, run):
        return [self.stub.runs[one["run_id"]]["state"] for one in self.posted(run)]

    async def places(self, run):
        """Node labels and tolerated taints of the newest trainer pod and of the servers."""
        trainer, servers = self.trainer(run), (await self.servers(run))["spec"]
        return [
            (labels, [one["key"] for one in pod.get("tolerations", ())])
            for pod, labels in (
                (trainer, trainer.get("nodeSelector", {}).get("labels")),
                (servers, servers.get("nodeSelector")),
            )
        ]

    async def carried(self, run):
        """The metadata of the same pods."""
        return [self.trainer(run)["podMetadata"], (await self.servers(run))["metadata"]]

    def trainer(self, run):
        """The newest trainer pod in the pipeline that KFP received."""
        pods = self.posted(run)[-1]["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]
        return pods["deploymentSpec"]["executors"]["exec-train"]

    async def servers(self, run):
        """The pod template of the environment servers."""
        deployment = await self.ask("GET", f"{DEPLOYMENTS}/{named(run, 'babyai')}")
        return deployment["spec"]["template"]


def named(run, part):
    return f"{run['metadata']['name']}-{run['metadata']['uid'][:8]}-{part}"


def works(run):
    return state(run) == "Running" and condition(run, "Progressing")["reason"] == "Running"


def waits(run):
    return condition(run, "Progressing").get("reason") == "Queued"
