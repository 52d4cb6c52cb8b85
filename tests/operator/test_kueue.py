"""The operator on a real kube-apiserver with a real Kueue that has quota for one run at a time."""

import asyncio
from contextlib import asynccontextmanager

import kueue
import pytest
from apiserver import Refused
from kfp_stub import KfpStub
from kueue import Kueue
from test_apiserver import MERGE, RULES, condition, phase, until, until_gone
from test_reconcile import SPEC

from agentrl_components.state import State, Verdict
from agentrl_envs.serving import running
from agentrl_operator.app import Options, operate
from agentrl_operator.kfp_api import KfpApi
from agentrl_operator.kubernetes_api import KubernetesApi
from agentrl_operator.memory_stores import MemoryStores, MemoryTracking
from agentrl_operator.neighbours import Neighbours
from agentrl_pipelines import platform
from agentrl_pipelines.binding import bind

pytestmark = pytest.mark.cluster

LAB = "lab"
RUNS = f"apis/agentrl.dev/v1alpha1/namespaces/{LAB}/agentrlruns"
WORKLOADS = f"{kueue.API}/namespaces/{LAB}/workloads"
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
ONE = [
    {"name": "cpu", "nominalQuota": "1250m"},
    {"name": "memory", "nominalQuota": "4Gi"},
]
"""A trainer (1 core, 2 GiB) and an environment server (250m, 256 MiB); not one more of either."""


@pytest.fixture(scope="module")
def server(api_server, tmp_path_factory):
    """With Kueue, a queue, and an operator that may do what the chart grants it."""
    lacking = kueue.missing()
    if lacking is not None:
        pytest.skip(f"{lacking}: tests on a real Kueue are left out")
    api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LAB}})
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    for role, rules, where in (("Role", MAY, {"namespace": LAB}), ("ClusterRole", ANYWHERE, {})):
        meta = {"metadata": {"name": "operator"} | where}
        given = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "operator"}
        who = {"roleRef": given, "subjects": [{"kind": "User", "name": "operator"}]}
        api_server.create(rbac | meta | {"kind": role, "rules": rules})
        api_server.create(rbac | meta | {"kind": f"{role}Binding"} | who)
    with Kueue.started(tmp_path_factory.mktemp("kueue"), api_server):
        for manifest in queues():
            api_server.create(manifest)
        yield api_server


def queues():
    """Two LocalQueues, and the quota behind them: nodes of any kind; spot nodes, then owned ones.
    And two classes of runs."""
    spot = {
        "nodeLabels": {"kind": "spot"},
        "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    }
    yield kind("ResourceFlavor", {"name": "default"})
    yield kind("ResourceFlavor", {"name": "spot"}, spec=spot)
    yield kind("ResourceFlavor", {"name": "owned"}, spec={"nodeLabels": {"kind": "owned"}})
    for local, name, flavors in (
        ("training", "team", ("default",)),
        ("mixed", "nodes", ("spot", "owned")),
    ):
        given = [{"name": one, "resources": ONE} for one in flavors]
        cluster_queue = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": given}],
        }
        yield kind("ClusterQueue", {"name": name}, spec=cluster_queue)
        meta = {"name": local, "namespace": LAB}
        yield kind("LocalQueue", meta, spec={"clusterQueue": name})
    for name, value in (("calm", 1), ("urgent", 100)):
        yield kind("WorkloadPriorityClass", {"name": name}, value=value)


def kind(name, metadata, **more):
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": name, "metadata": metadata} | more


class Lab:
    """What surrounds the operator besides Kubernetes and Kueue."""

    def __init__(self, server):
        self.server = server
        self.stub, self.stores = KfpStub(), MemoryStores()

    @asynccontextmanager
    async def operating(self):
        cluster = KubernetesApi()
        with running(self.stub.app()) as url:
            pipelines = KfpApi(url, cluster)
            neighbours = Neighbours(
                cluster=cluster,
                pipelines=pipelines,
                stores=self.stores,
                tracking=MemoryTracking(),
                bind=bind,
            )
            about = platform.Platform(
                kfp=platform.Kfp(namespace=LAB),
                kueue=platform.Kueue(admission="run"),
                poll_seconds=0.2,
            )
            options = Options(namespaces=(LAB,), host="127.0.0.1", port=0, workers=4)
            stop, ready = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(operate(neighbours, about, options, stop=stop, ready=ready))
            try:
                async with asyncio.timeout(60):
                    await ready.wait()
                yield
                await self.cleared()
            finally:
                stop.set()
                async with asyncio.timeout(60):
                    await task
                await pipelines.close()
                await cluster.close()
                await asyncio.sleep(0.05)  # Kopf's own connections say goodbye

    async def cleared(self):
        """Every run is deleted, and leaves no Workload."""
        for run in (await self.ask("GET", RUNS))["items"]:
            await self.ask("DELETE", f"{RUNS}/{run['metadata']['name']}")
            await until_gone(self.server, f"{RUNS}/{run['metadata']['name']}")
        assert (await self.ask("GET", WORKLOADS))["items"] == []

    async def ask(self, method, path, body=None, content=MERGE):
        return await asyncio.to_thread(self.server.ask, method, path, body, content)

    async def create(self, name, queue="training", **labels):
        manifest = {
            "apiVersion": "agentrl.dev/v1alpha1",
            "kind": "AgentRLRun",
            "metadata": {"name": name, "namespace": LAB, "labels": labels},
            "spec": QUEUED | {"compute": {"queue": queue}},
        }
        return await asyncio.to_thread(self.server.create, manifest)

    async def until(self, name, wanted):
        return await until(self.server, name, wanted, runs=RUNS)

    async def workload(self, run):
        return await self.ask("GET", f"{WORKLOADS}/{named(run, 'workload')}")

    async def until_workload(self, run, **wanted):
        """Once its conditions are so."""
        async with asyncio.timeout(30):
            while True:
                body = await self.workload(run)
                conditions = body.get("status", {}).get("conditions", ())
                seen = {one["type"]: one["status"] for one in conditions}
                if wanted.items() <= seen.items():
                    return body
                await asyncio.sleep(0.05)

    def finish(self, run):
        """The run's stages do its phase, and say that it was the last."""
        name, uid = run["metadata"]["name"], run["metadata"]["uid"]
        shelf = self.stores.shelf(f"s3://mlpipeline/agentrl/{LAB}/{name}-{uid[:8]}")
        shelf.standing = State(status="running", phase=0, iteration=2)
        shelf.verdicts[0] = Verdict(action="finish", phase=1, max_turns=6, reason="")
        self.stub.end(run["status"]["kfpRun"], "SUCCEEDED")

    def posted(self, run):
        """Its KFP runs, in order."""
        name = f"{run['metadata']['name']}:"
        return [one for one in self.stub.posted if one["display_name"].startswith(name)]

    def states(self, run):
        return [self.stub.runs[one["run_id"]]["state"] for one in self.posted(run)]

    async def places(self, run):
        """Node labels and tolerated taints of its newest trainer, and of its servers."""
        pods = self.posted(run)[-1]["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]
        trainer = pods["deploymentSpec"]["executors"]["exec-train"]
        deployment = await self.ask("GET", f"{DEPLOYMENTS}/{named(run, 'babyai')}")
        servers = deployment["spec"]["template"]["spec"]
        return [
            (labels, [one["key"] for one in pod.get("tolerations", ())])
            for pod, labels in (
                (trainer, trainer.get("nodeSelector", {}).get("labels")),
                (servers, servers.get("nodeSelector")),
            )
        ]


def named(run, part):
    return f"{run['metadata']['name']}-{run['metadata']['uid'][:8]}-{part}"


def works(run):
    return phase(run) == "Running" and condition(run, "Progressing")["reason"] == "Running"


def waits(run):
    return condition(run, "Progressing").get("reason") == "Queued"


@pytest.fixture
def lab(server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(server.operator_kubeconfig))
    return Lab(server)


async def test_a_run_waits_until_another_gives_its_quota_back(lab):
    async with lab.operating():
        await lab.create("first")
        first = await lab.until("first", works)
        assert condition(first, "Admitted")["message"] == "Quota reserved in ClusterQueue team"
        await lab.create("second")
        second = await lab.until(
            "second", lambda run: "unused quota" in condition(run, "Admitted").get("message", "")
        )

        assert phase(second) == "Pending"
        assert condition(second, "Admitted")["reason"] == "Queued"
        assert condition(second, "Progressing")["reason"] == "Queued"
        assert lab.states(second) == []
        with pytest.raises(Refused, match="404"):
            await lab.ask("GET", f"{DEPLOYMENTS}/{named(second, 'babyai')}")
        assert (await lab.until_workload(first, PodsReady="True"))["status"]["admission"]

        lab.finish(first)
        await lab.until("first", lambda run: phase(run) == "Succeeded")
        await lab.until_workload(first, Finished="True")
        await lab.until("second", works)
        assert lab.states(first) == ["SUCCEEDED"]


async def test_a_preempted_run_makes_room_and_goes_on_afterwards(lab):
    async with lab.operating():
        await lab.create("patient")
        run = await lab.until("patient", works)
        podset = {
            "name": "main",
            "count": 1,
            "template": {
                "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
            },
        }
        spec = {"queueName": "training", "priority": 100, "podSets": [podset]}
        urgent = kind("Workload", {"name": "urgent", "namespace": LAB}, spec=spec)
        await asyncio.to_thread(lab.server.create, urgent)
        run = await lab.until("patient", waits)

        assert lab.states(run) == ["FAILED"]  # as KFP ends what it terminates
        with pytest.raises(Refused, match="404"):
            await lab.ask("GET", f"{DEPLOYMENTS}/{named(run, 'babyai')}")
        async with asyncio.timeout(30):
            while "admission" not in (await lab.ask("GET", f"{WORKLOADS}/urgent")).get(
                "status", {}
            ):
                await asyncio.sleep(0.05)
        left = await lab.until_workload(
            run, QuotaReserved="False", Requeued="True", Admitted="False"
        )
        assert "admission" not in left["status"]
        events = await lab.ask("GET", f"api/v1/namespaces/{LAB}/events")
        assert {"Admitted", "Queued", "Stopping"} <= {one["reason"] for one in events["items"]}

        await lab.ask("DELETE", f"{WORKLOADS}/urgent")
        run = await lab.until("patient", works)
        assert (run["status"]["attempt"], run["status"]["failures"]) == (1, 0)
        assert lab.states(run) == ["FAILED", "RUNNING"]


async def test_a_deactivated_run_stops_until_it_is_activated(lab):
    async with lab.operating():
        await lab.create("paused")
        run = await lab.until("paused", works)
        path = f"{WORKLOADS}/{named(run, 'workload')}"
        await lab.ask("PATCH", path, {"spec": {"active": False}})
        await lab.until_workload(run, Evicted="True", QuotaReserved="False", Requeued="False")
        run = await lab.until("paused", waits)

        assert run["status"]["message"] == "in the queue: The workload is deactivated"
        await lab.create("other")  # there is room for another meanwhile
        other = await lab.until("other", works)
        await lab.ask("PATCH", path, {"spec": {"active": True}})
        lab.finish(other)
        run = await lab.until("paused", works)
        assert (run["status"]["attempt"], run["status"]["failures"]) == (1, 0)


async def test_a_suspended_run_leaves_the_queue_and_a_deleted_one_leaves_nothing(lab):
    async with lab.operating():
        await lab.create("given-up")
        run = await lab.until("given-up", works)
        path = f"{RUNS}/given-up"
        await lab.ask("PATCH", path, {"spec": {"suspend": True}})
        await lab.until("given-up", lambda run: phase(run) == "Suspended")
        await until_gone(lab.server, f"{WORKLOADS}/{named(run, 'workload')}")
        await lab.ask("PATCH", path, {"spec": {"suspend": False}})
        await lab.until("given-up", works)
        await lab.ask("DELETE", path)
        await until_gone(lab.server, path)

        assert lab.states(run) == ["FAILED", "FAILED"]
        for left in (
            f"{WORKLOADS}/{named(run, 'workload')}",
            f"{DEPLOYMENTS}/{named(run, 'babyai')}",
        ):
            with pytest.raises(Refused, match="404"):
                await lab.ask("GET", left)


async def test_pods_run_on_the_nodes_that_kueue_chose_and_on_others_after_an_eviction(lab):
    async with lab.operating():
        await lab.create("roams", queue="mixed")
        run = await lab.until("roams", works)
        on_spot = ({"kind": "spot"}, ["spot"])
        assert await lab.places(run) == [on_spot, on_spot]

        path = f"{WORKLOADS}/{named(run, 'workload')}"
        await lab.ask("PATCH", path, {"spec": {"active": False}})
        await lab.until("roams", waits)
        await lab.create("settles", queue="mixed")  # takes all spot nodes meanwhile
        await lab.until("settles", works)
        await lab.ask("PATCH", path, {"spec": {"active": True}})
        run = await lab.until("roams", works)

        on_owned = ({"kind": "owned"}, [])
        assert await lab.places(run) == [on_owned, on_owned]
        assert (run["status"]["attempt"], run["status"]["failures"]) == (1, 0)


async def test_a_run_of_an_urgent_class_goes_before_a_calm_one(lab):
    async with lab.operating():
        await lab.create("calm", **{CLASS: "calm"})
        calm = await lab.until("calm", works)
        assert (await lab.workload(calm))["spec"]["priority"] == 1
        await lab.create("urgent", **{CLASS: "unheard-of"})
        urgent = await lab.until(
            "urgent", lambda run: condition(run, "Admitted").get("reason") == "NoPriorityClass"
        )
        assert "there is no WorkloadPriorityClass unheard-of" in urgent["status"]["message"]
        with pytest.raises(Refused, match="404"):
            await lab.workload(urgent)

        await lab.ask("PATCH", f"{RUNS}/urgent", {"metadata": {"labels": {CLASS: "calm"}}})
        urgent = await lab.until("urgent", waits)
        await lab.until_workload(urgent, QuotaReserved="False")
        await lab.ask("PATCH", f"{RUNS}/urgent", {"metadata": {"labels": {CLASS: "urgent"}}})
        await lab.until("urgent", works)
        await lab.until("calm", waits)
        spec = (await lab.workload(urgent))["spec"]
        assert (spec["priorityClassRef"]["name"], spec["priority"]) == ("urgent", 100)
        assert lab.states(calm) == ["FAILED"]
