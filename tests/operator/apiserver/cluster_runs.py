"""Support for tests with runs on a real API server: the operator, and waiting for a state."""

import asyncio
import copy
import time
from contextlib import asynccontextmanager, suppress

from apiserver import PATIENCE_S, Refused
from demo_run import SPEC

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import RunState
from agentrl_operator.__main__ import raise_recursion_limit
from agentrl_operator.app import Options, operate
from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.clients.protocols import Clients
from agentrl_operator.testing.memory import MemoryKfp
from agentrl_operator.testing.memory_stores import MemoryStores, MemoryTracking
from agentrl_pipelines.platform.config import Kfp, Platform

NAMESPACE = "kubeflow"
RUNS = f"apis/agentrl.dev/v1alpha1/namespaces/{NAMESPACE}/agentrlruns"
MERGE = "application/merge-patch+json"
SERVED = SPEC | {"environments": [{"name": "babyai", "builtin": "babyai"}]}
RULES = [
    {
        "apiGroups": ["agentrl.dev"],
        "resources": ["agentrlruns"],
        "verbs": ["list", "watch", "patch", "delete"],
    },
    {"apiGroups": ["agentrl.dev"], "resources": ["agentrlruns/status"], "verbs": ["patch"]},
    {"apiGroups": ["agentrl.dev"], "resources": ["agentrlruns/finalizers"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create"]},
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["list", "watch", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    {
        "apiGroups": ["autoscaling"],
        "resources": ["horizontalpodautoscalers"],
        "verbs": ["create", "patch", "delete"],
    },
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "create"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["list", "delete"]},
    {
        "apiGroups": ["ray.io"],
        "resources": ["rayclusters"],
        "verbs": ["get", "create", "delete"],
    },
    {
        "apiGroups": ["agents.x-k8s.io"],
        "resources": ["sandboxes"],
        "verbs": ["list", "create", "delete", "deletecollection"],
    },
]
"""The RBAC rules of the operator in the chart, without those for KFP itself."""


@asynccontextmanager
async def ready_servers(server, namespace):
    """Report all Deployments of a namespace as ready: no pods run here."""

    async def report():
        path = f"apis/apps/v1/namespaces/{namespace}/deployments"
        while True:
            for one in (await asyncio.to_thread(server.ask, "GET", path))["items"]:
                name, count = one["metadata"]["name"], one["spec"]["replicas"]
                kinds = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
                counts = dict.fromkeys(kinds, count)
                counts["observedGeneration"] = one["metadata"]["generation"]
                if one.get("status", {}).items() >= counts.items():
                    continue
                with suppress(Refused):  # it was deleted
                    await asyncio.to_thread(
                        server.ask, "PATCH", f"{path}/{name}/status", {"status": counts}, MERGE
                    )
            await asyncio.sleep(0.05)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Outside:
    """The operator's dependencies other than Kubernetes, in memory."""

    def __init__(self, server):
        self.server = server
        self.kfp, self.stores, self.tracking = MemoryKfp(), MemoryStores(), MemoryTracking()
        self.cluster = KubernetesApi()
        self.platform = Platform(kfp=Kfp(namespace=NAMESPACE), poll_seconds=0.1)

    @asynccontextmanager
    async def operating(self, *others):
        """Run the operator, which watches the namespace of the runs and these `others`."""
        clients = Clients(
            cluster=self.cluster,
            pipelines=self.kfp,
            stores=self.stores,
            tracking=self.tracking,
            bind=lambda run, uid, platform, queued: {"pipeline_spec": {}},
        )
        raise_recursion_limit()
        namespaces = (NAMESPACE, *others)
        options = Options(namespaces=namespaces, host="127.0.0.1", port=0, workers=4)
        stop, ready = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(operate(clients, self.platform, options, stop=stop, ready=ready))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ready.wait()
            async with ready_servers(self.server, NAMESPACE):
                yield
        finally:
            stop.set()
            async with asyncio.timeout(PATIENCE_S):
                await task
            await self.cluster.close()
            await asyncio.sleep(0.05)  # Kopf's own connections say goodbye

    def finish_phase(self, run, phase, action):
        spec = run["spec"]
        name, uid = run["metadata"]["name"], run["metadata"]["uid"]
        run_data = self.stores.run(f"s3://mlpipeline/agentrl/{NAMESPACE}/{name}-{uid[:8]}")
        run_data.state = RunState(status="running", phase=phase, iteration=2)
        following = min(phase + 1, len(spec["horizon"]["phases"]) - 1)
        run_data.decisions[phase] = Decision(action=action, phase=following, max_turns=6, reason="")
        self.kfp.end(run["status"]["kfpRun"], "SUCCEEDED")


def manifest(name, spec=SPEC):
    return {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def changed(path, value):
    """`SERVED` with another value at a path such as `environments.0.name`."""
    spec = copy.deepcopy(SERVED)
    where = spec
    *parents, last = path.split(".")
    for name in parents:
        where = where[int(name)] if isinstance(where, list) else where.setdefault(name, {})
    where[int(last) if isinstance(where, list) else last] = value
    return spec


async def until(server, name, wanted, seconds=PATIENCE_S, runs=RUNS):
    """Wait until `wanted` is true of the run, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        run = await asyncio.to_thread(server.ask, "GET", f"{runs}/{name}")
        if wanted(run):
            return run
        assert time.monotonic() < deadline, run.get("status")
        await asyncio.sleep(0.03)


async def until_gone(server, path, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while True:
        try:
            await asyncio.to_thread(server.ask, "GET", path)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.03)


def state(run):
    return run.get("status", {}).get("state")


def condition(run, kind):
    conditions = run.get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == kind), {})
