"""The environment servers of a run on a real kube-apiserver."""

import asyncio
import time

from apiserver import PATIENCE_S
from cluster_runs import (
    MERGE,
    NAMESPACE,
    RUNS,
    SERVED,
    condition,
    manifest,
    state,
    until,
    until_gone,
)

from agentrl_operator.api import resource
from agentrl_operator.manifests import autoscaling


async def test_ready_servers_are_shown_in_the_status_at_once(server, outside):
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("served", SERVED))
        await until(server, "served", lambda run: state(run) == "Running")
        await until(
            server, "served", lambda run: condition(run, "EnvironmentsReady")["status"] == "True"
        )


async def test_scaled_environment_has_a_budget_and_is_scaled(server, outside):
    environment = SERVED["environments"][0] | {"scaling": {"minReplicas": 2, "maxReplicas": 5}}
    async with outside.operating():
        made = await asyncio.to_thread(
            server.create, manifest("scaled", SERVED | {"environments": [environment]})
        )
        await until(server, "scaled", lambda run: state(run) == "Running")
        name = f"scaled-{made['metadata']['uid'][:8]}-babyai"
        base = f"namespaces/{NAMESPACE}"
        deployment = f"apis/apps/v1/{base}/deployments/{name}"
        found = await asyncio.to_thread(server.ask, "GET", deployment)
        assert found["spec"]["replicas"] == 2
        budget = f"apis/policy/v1/{base}/poddisruptionbudgets/{name}"
        found = await asyncio.to_thread(server.ask, "GET", budget)
        assert found["spec"]["maxUnavailable"] == 1
        assert found["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"

        fleet, run = outside.cluster.fleet, resource.read(made, outside.platform)
        await fleet.scale(NAMESPACE, name, 4)
        found = await asyncio.to_thread(server.ask, "GET", deployment)
        assert found["spec"]["replicas"] == 4
        (scaled,) = run.run.spec.environments
        wanted = autoscaling.autoscaler(run, scaled, scaled.scaling)
        await fleet.apply_autoscaler(wanted)
        await fleet.apply_autoscaler(wanted)
        autoscaler = f"apis/autoscaling/v2/{base}/horizontalpodautoscalers/{name}"
        found = await asyncio.to_thread(server.ask, "GET", autoscaler)
        assert (found["spec"]["minReplicas"], found["spec"]["maxReplicas"]) == (2, 5)
        assert not await fleet.serves_metric(autoscaling.METRIC)
        await fleet.delete_autoscaler(NAMESPACE, name)
        await until_gone(server, autoscaler)


async def test_more_servers_and_more_memory_reach_a_run_at_work(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("grows", SERVED))
        await until(server, "grows", lambda run: state(run) == "Running")
        name = f"grows-{made['metadata']['uid'][:8]}-babyai"
        path = f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        before = await asyncio.to_thread(server.ask, "GET", path)
        environment = {"name": "babyai", "builtin": "babyai", "replicas": 3, "memory": "1Gi"}
        change = {"spec": {"environments": [environment]}}
        await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/grows", change, MERGE)
        deadline = time.monotonic() + PATIENCE_S
        while (after := await asyncio.to_thread(server.ask, "GET", path))["spec"]["replicas"] != 3:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.03)
        (container,) = after["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"memory": "1Gi"}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert len([one for one in outside.kfp.submitted if one.name.startswith("grows:")]) == 1
