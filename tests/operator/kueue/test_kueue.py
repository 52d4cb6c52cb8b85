"""The operator on a real kube-apiserver with a real Kueue that has quota for one run at a time."""

import asyncio

import kueue
import pytest
from apiserver import PATIENCE_S, Refused, binary
from cluster_runs import condition, state, until_gone
from kueue import Kueue
from kueue_lab import (
    ANYWHERE,
    CLASS,
    DEPLOYMENTS,
    LAB,
    MAY,
    RUNS,
    WORKLOADS,
    Lab,
    kind,
    named,
    queues,
    resource_group,
    waits,
    works,
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(api_server, tmp_path_factory):
    """An API server with Kueue, a queue and the operator's role of the chart."""
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


@pytest.fixture
def lab(server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(server.operator_kubeconfig))
    return Lab(server)


async def test_a_run_waits_until_another_releases_its_quota(lab):
    async with lab.operating():
        await lab.create("first")
        first = await lab.until("first", works)
        assert condition(first, "Admitted")["message"] == "Quota reserved in ClusterQueue team"
        await lab.create("second")
        second = await lab.until(
            "second", lambda run: "unused quota" in condition(run, "Admitted").get("message", "")
        )

        assert state(second) == "Pending"
        assert condition(second, "Admitted")["reason"] == "Queued"
        assert condition(second, "Progressing")["reason"] == "Queued"
        assert lab.states(second) == []
        with pytest.raises(Refused, match="404"):
            await lab.ask("GET", f"{DEPLOYMENTS}/{named(second, 'babyai')}")
        assert (await lab.until_workload(first, PodsReady="True"))["status"]["admission"]

        lab.finish(first)
        await lab.until("first", lambda run: state(run) == "Succeeded")
        await lab.until_workload(first, Finished="True")
        await lab.until("second", works)
        assert lab.states(first) == ["SUCCEEDED"]


async def test_a_preempted_run_stops_and_continues_later(lab):
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
        async with asyncio.timeout(PATIENCE_S):
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
        await lab.until("given-up", lambda run: state(run) == "Suspended")
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


async def test_node_selectors_of_an_admission_check_reach_the_pods(lab):
    async with lab.operating():
        await lab.create("roomy", queue="checked")
        run = await lab.until("roomy", waits)
        room = {"annotations": {"consume-room": "1"}, "labels": {"cost-center": "7"}}
        await lab.make_room(run, nodeSelector={"pool": "bought"}, **room)
        run = await lab.until("roomy", works)

        bought = ({"pool": "bought"}, [])
        assert await lab.places(run) == [bought, bought]
        for carried in await lab.carried(run):
            assert carried["annotations"] == room["annotations"]
            assert carried["labels"]["cost-center"] == "7"


@pytest.mark.skipif(binary("kuberay") is None, reason="python hack/cluster build kuberay")
async def test_the_quota_counts_the_pods_of_a_ray_cluster(lab):
    crd = binary("kuberay").parents[1] / "manifests/kuberay-crds/ray.io_rayclusters.yaml"
    await asyncio.to_thread(lab.server.install, crd)
    queue = f"{kueue.API}/clusterqueues/rays"
    compute = {
        "ray": "cluster",
        "cpu": "1",
        "memory": "2Gi",
        "trainers": {"count": 1, "cpu": "1", "memory": "1Gi"},
        "samplers": {"count": 2, "cpu": "500m", "memory": "1Gi"},
    }
    async with lab.operating():
        await lab.create("rays", queue="rays", compute=compute)
        run = await lab.until("rays", waits)
        names = [one["name"] for one in (await lab.workload(run))["spec"]["podSets"]]
        assert names == ["train", "ray-head", "ray-trainers", "ray-samplers", "environment-babyai"]
        # train 1, head 0.5, trainer 1, samplers 2 x 0.5, environment server 0.25
        run = await lab.until(
            "rays",
            lambda run: (
                "(3500m) + current podset request (250m)"
                in condition(run, "Admitted").get("message", "")
            ),
        )

        more = {"resourceGroups": [resource_group("default", cpu="3750m", memory="7424Mi")]}
        await lab.ask("PATCH", queue, {"spec": more})
        await lab.until("rays", lambda run: condition(run, "Admitted")["status"] == "True")
        await lab.until_usage(queue, cpu="3750m", memory="7424Mi")


async def test_a_run_of_a_high_priority_class_is_admitted_first(lab):
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
