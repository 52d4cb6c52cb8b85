"""Requests to a real kube-apiserver."""

import pytest

from agentrl_operator.clients.kubernetes import KubernetesApi

LAB = "pods"
FIRST, LATER, OTHER = (f"d4f24ec4-9fc5-5b64-9d72-{n:012}" for n in range(3))


@pytest.fixture
async def cluster(api_server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    cluster = KubernetesApi()
    yield cluster
    await cluster.close()


def pod(server, name, phase, **labels):
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": LAB, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "automountServiceAccountToken": False,
        },
    }
    server.create(manifest)
    path = f"api/v1/namespaces/{LAB}/pods/{name}/status"
    server.ask("PATCH", path, {"status": {"phase": phase}}, "application/merge-patch+json")


async def test_pods_that_have_not_succeeded_are_listed_by_label(api_server, cluster):
    api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LAB}})
    run, kfp = "agentrl.dev/run", "pipeline/runid"
    pod(api_server, "train", "Running", **{run: "demo", kfp: FIRST})
    pod(api_server, "driver", "Pending", **{kfp: FIRST})
    pod(api_server, "provision", "Succeeded", **{run: "demo", kfp: FIRST})
    pod(api_server, "later", "Running", **{run: "demo", kfp: LATER})
    pod(api_server, "failed", "Failed", **{run: "demo", kfp: LATER})
    pod(api_server, "servers", "Running", **{run: "demo"})
    pod(api_server, "elsewhere", "Running", **{run: "demo-2", kfp: OTHER})

    def found(pods):
        return sorted((one.part, one.run_id, one.ended) for one in pods)

    both = await cluster.list_pods(LAB, kfp, (FIRST, LATER))
    assert found(await cluster.list_pods(LAB, kfp, (FIRST,))) == [
        ("driver", FIRST, False),
        ("train", FIRST, False),
    ]
    assert found(both)[1:] == [
        ("failed", LATER, True),
        ("later", LATER, False),
        ("train", FIRST, False),
    ]
    assert [one.part for one in await cluster.list_pods(LAB, run, ("demo",)) if not one.run_id] == [
        "servers"
    ]
    assert await cluster.list_pods(LAB, kfp, (OTHER[:-1] + "9",)) == []


def servers(labels, **pods):
    common = {"app": "servers"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "servers", "namespace": LAB, "labels": labels},
        "spec": {
            "selector": {"matchLabels": common},
            "template": {
                "metadata": {"labels": common},
                "spec": {"containers": [{"name": "main", "image": "none"}], **pods},
            },
        },
    }


async def test_an_updated_deployment_loses_the_fields_that_its_manifest_no_longer_has(
    api_server, cluster
):
    somewhere = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    placed = {"nodeSelector": {"pool": "spot"}, "tolerations": somewhere}
    await cluster.apply(servers({"team": "one", "queue": "main"}, **placed))
    await cluster.apply(servers({"team": "two"}, nodeSelector={"zone": "a"}))

    path = f"apis/apps/v1/namespaces/{LAB}/deployments/servers"
    found = api_server.ask("GET", path)
    pods = found["spec"]["template"]["spec"]
    assert found["metadata"]["labels"] == {"team": "two"}
    assert (pods["nodeSelector"], pods.get("tolerations")) == ({"zone": "a"}, None)
    assert found["metadata"]["generation"] == 2
    assert {one["manager"] for one in found["metadata"]["managedFields"]} == {"agentrl-operator"}

    await cluster.apply(servers({"team": "two"}, nodeSelector={"zone": "a"}))
    again = api_server.ask("GET", path)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
