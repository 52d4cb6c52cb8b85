"""The RayCluster of a run on a real API server with KubeRay's real CRD."""

import asyncio

import pytest
from apiserver import PATIENCE_S, Refused, binary
from cluster_runs import NAMESPACE, RUNS, condition, manifest, state, until
from demo_run import SPEC

RAY = SPEC | {
    "compute": {"ray": "cluster", "trainers": {"count": 1}, "samplers": {"count": 2}},
}
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
CRD = "manifests/kuberay-crds/ray.io_rayclusters.yaml"


async def served(server, path):
    """Wait until the API server serves a path."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await asyncio.to_thread(server.ask, "GET", path)
            except Refused:
                await asyncio.sleep(0.1)


def start_pods(server, body):
    """What KubeRay and the kubelet do: a ready pod for the head and each worker."""
    spec = body["spec"]
    groups = [("head", 1, spec["headGroupSpec"])]
    groups += [(one["groupName"], one["replicas"], one) for one in spec["workerGroupSpecs"]]
    for group, count, one in groups:
        for number in range(count):
            template = one["template"]
            name = f"{body['metadata']['name']}-{group}-{number}"
            labels = template["metadata"]["labels"]
            labels |= {"ray.io/cluster": body["metadata"]["name"]}
            meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
            server.ask("POST", PODS, pod)
            ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
            change = {"status": ready}
            merge = "application/merge-patch+json"
            server.ask("PATCH", f"{PODS}/{name}/status", change, merge)


@pytest.mark.skipif(binary("kuberay") is None, reason="python hack/cluster build kuberay")
async def test_a_run_waits_for_kuberay_then_for_its_pods_and_removes_its_cluster(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("rays", RAY))
        waiting = await until(
            server, "rays", lambda run: "RayClusterReady" in str(run.get("status"))
        )
        assert condition(waiting, "RayClusterReady")["reason"] == "KubeRayUnavailable"
        assert condition(waiting, "RayClusterReady")["message"].startswith("spec.compute.ray: ")

        await asyncio.to_thread(server.install, binary("kuberay").parents[1] / CRD)
        name = f"rays-{made['metadata']['uid'][:8]}-ray"
        path = f"apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/{name}"
        body = await served(server, path)
        assert body["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert not [one for one in outside.kfp.submitted if one.name.startswith("rays:")]
        await asyncio.to_thread(start_pods, server, body)
        running = await until(server, "rays", lambda run: state(run) == "Running")
        assert running["status"]["ray"]["workers"] == "trainers 1/1, samplers 2/2"
        assert condition(running, "RayClusterReady")["status"] == "True"

        kfp_run = running["status"]["kfpRun"]
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/rays")
        async with asyncio.timeout(PATIENCE_S):
            while outside.kfp.states[kfp_run] != "CANCELING":
                await asyncio.sleep(0.02)
        outside.kfp.end(kfp_run, "FAILED")
        # Without a garbage collector the pods, and so the RayCluster, stay.
        async with asyncio.timeout(PATIENCE_S):
            while "deletionTimestamp" not in (await served(server, path))["metadata"]:
                await asyncio.sleep(0.02)
        assert (await served(server, path))["metadata"]["finalizers"] == ["foregroundDeletion"]
