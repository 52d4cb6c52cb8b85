"""The connections that the NetworkPolicies of the chart allow: every call of our code and no other.

The policies are those that Helm renders; the pods are labelled as the code that makes them labels
them. tests/e2e/test_network.py asks the same of a kernel.
"""

from collections.abc import Callable
from typing import Any

import pytest
from demo_run import PLATFORM, SERVED, UID, run

from agentrl_operator.manifests import environment_server
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from cluster.network.network_policies import Pod, network

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Call = tuple[str, str, int]
"""Source, destination and port (TCP except for 53 and 5353)."""

API_SERVER = "172.18.0.2"
INTERNET = "93.184.216.34"
PORTS = {
    "operator": (8080, 9999),
    "environment": (8080, 9999),
    "kfp": (8888, 9999),
    "minio": (9000,),
    "tracker": (5000,),
    "trial minio": (9000,),
    "trial mlflow": (5000,),
    "dns": (53, 5353, 9999),
    "api server": (6443, 10250),
    "internet": (443, 80),
    "neighbour": (9999,),
    "stranger": (9999,),
}
"""Ports on which each destination listens, and one that must not be reachable."""
OURS = {
    "agentrl": ("operator", "10.1.0.1"),
    "agentrl-minio": ("trial minio", "10.1.0.2"),
    "agentrl-mlflow": ("trial mlflow", "10.1.0.3"),
}
"""The Deployments of the chart, by their names in this test."""
ISOLATED = ("operator", "environment", "trial minio", "trial mlflow")


def pod(namespace: str, name: str, address: str, **labels: str) -> Manifest:
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"containers": []},
        "status": {"podIP": address},
    }


def templated(deployment: Manifest, namespace: str, name: str, address: str) -> Manifest:
    made = deployment["spec"]["template"]
    metadata = {"namespace": namespace, "name": name, "labels": made["metadata"]["labels"]}
    return {"metadata": metadata, "spec": made["spec"], "status": {"podIP": address}}


def pods(objects: list[Manifest], runs: str) -> list[Manifest]:
    """Pods of an installation with one run in the namespace `runs`, and pods around it."""
    resource = run(SERVED)
    (environment,) = resource.run.spec.environments
    served = environment_server.deployment(resource, resource.run, environment, PLATFORM)
    bound = phase_pipeline(resource.run, UID, PLATFORM)["platform_spec"]["platforms"]["kubernetes"]
    stage = bound["deploymentSpec"]["executors"]["exec-evaluate"]["podMetadata"]["labels"]
    return [
        *(
            templated(one, one["metadata"]["namespace"], *OURS[one["metadata"]["name"]])
            for one in objects
            if one["kind"] == "Deployment"
        ),
        templated(served, runs, "environment", "10.1.0.4"),
        pod(runs, "stage", "10.1.0.5", **stage),
        pod("kubeflow", "kfp", "10.1.0.6", app="ml-pipeline"),
        pod("kubeflow", "minio", "10.1.0.7", app="minio"),
        pod("mlops", "tracker", "10.1.0.8", app="mlflow"),
        pod("kube-system", "dns", "10.1.0.9", **{"k8s-app": "kube-dns"}),
        pod("monitoring", "prometheus", "10.1.0.10"),
        pod(runs, "neighbour", "10.1.0.11"),
        pod("default", "stranger", "10.1.0.12"),
    ]


def calls(objects: list[Manifest], runs: str = "kubeflow") -> set[Call]:
    """Allowed connections from or to a pod that a policy should isolate."""
    found = pods(objects, runs)
    spaces = {one["metadata"]["namespace"] for one in found}
    read = network(
        pods=found,
        namespaces=[
            {"metadata": {"name": space, "labels": {"kubernetes.io/metadata.name": space}}}
            for space in spaces
        ],
        policies=[one for one in objects if one["kind"] == "NetworkPolicy"],
        slices=[],
    )
    ends: dict[str, Pod | str] = {one.name: one for one in read.pods}
    ends |= {"api server": API_SERVER, "internet": INTERNET}
    return {
        (source, target, port)
        for source in ends
        for target, ports in PORTS.items()
        for port in ports
        if target in ends and source != target and (source in ISOLATED or target in ISOLATED)
        if read.allows(ends[source], ends[target], "udp" if port in (53, 5353) else "tcp", port)
    }


METRICS = (
    "api server", "dns", "internet", "kfp", "minio", "neighbour", "prometheus", "stage",
    "stranger", "tracker",
)  # fmt: skip
"""Pods that can read the metrics of the operator: all without an egress policy."""


def test_exactly_the_calls_of_the_code_are_allowed(render: Render) -> None:
    assert calls(render()) == {
        ("operator", "api server", 6443),
        ("operator", "dns", 53),
        ("operator", "dns", 5353),
        ("operator", "kfp", 8888),
        ("operator", "minio", 9000),
        ("operator", "environment", 8080),
        ("stage", "environment", 8080),
        *((name, "operator", 8080) for name in METRICS),
        # allowed too, because a policy cannot exclude them: other servers on the API server's
        # ports, and other pods of a namespace
        ("operator", "internet", 443),
        ("operator", "kfp", 9999),
        ("operator", "neighbour", 9999),
    }


def test_a_server_is_reachable_with_any_port_of_its_service(render: Render) -> None:
    for uri in ("http://mlflow.mlops.svc", "http://mlflow.mlops:80"):
        assert calls(render({"tracking": {"uri": uri}})) >= {("operator", "tracker", 5000)}
    assert ("operator", "tracker", 5000) not in calls(render())


def test_a_name_without_a_namespace_is_in_the_operators_namespace(render: Render) -> None:
    storage = {"url": "s3://models", "existingSecret": "keys", "endpoint": "http://minio:80"}
    values = {"storage": storage, "kfp": {"url": "http://10.9.9.9:8888"}}
    assert ("operator", "minio", 9000) in calls(render(values))
    assert ("operator", "minio", 9000) not in calls(render(values, namespace="agentrl-system"))


def test_with_addresses_of_the_api_server_its_ports_are_closed_for_others(render: Render) -> None:
    found = calls(render({"networkPolicy": {"apiServerCidrs": ["172.18.0.0/16"]}}))
    assert ("operator", "api server", 6443) in found
    assert ("operator", "internet", 443) not in found


def test_minio_and_mlflow_for_trials_accept_only_their_users(render: Render) -> None:
    values = {"minio": {"enabled": True}, "mlflow": {"enabled": True}}
    found = calls(render(values, namespace="agentrl-system"))
    for name, port in (("trial minio", 9000), ("trial mlflow", 5000)):
        callers = {source for source, target, at in found if (target, at) == (name, port)}
        # the runs are in the namespace of KFP; MinIO and MLflow are in that of the operator
        assert callers - set(ISOLATED) == {"stage", "kfp", "minio", "neighbour"}
        assert "operator" in callers
        assert "environment" not in callers


def test_prometheus_can_scrape_environment_servers_where_it_is_named(render: Render) -> None:
    space = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    found = calls(render({"networkPolicy": {"environmentFrom": [space]}}))
    assert ("prometheus", "environment", 8080) in found
    assert ("stranger", "environment", 8080) not in found


@pytest.mark.parametrize("server", ["minio", "mlflow"])
def test_an_ingress_controller_can_call_mlflow_or_minio_where_it_is_named(
    render: Render, server: str
) -> None:
    space = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    both = {"minio": {"enabled": True}, "mlflow": {"enabled": True}}
    found = calls(render(both | {"networkPolicy": {f"{server}From": [space]}}))
    callers = {(source, target) for source, target, _ in found}
    assert ("prometheus", f"trial {server}") in callers
    assert ("prometheus", "trial minio" if server == "mlflow" else "trial mlflow") not in callers
    assert ("stranger", f"trial {server}") not in callers
    assert ("stage", f"trial {server}") in callers


def test_an_environment_can_call_the_configured_destinations(render: Render) -> None:
    web = {"ports": [{"protocol": "TCP", "port": 80}]}
    found = calls(render({"networkPolicy": {"environmentEgress": [web]}}))
    assert {call for call in found if call[0] == "environment"} == {
        ("environment", "dns", 53),
        ("environment", "dns", 5353),
        ("environment", "internet", 80),
    }


@pytest.mark.parametrize("watched", [["team-a"], ["team-a", "team-b"]])
def test_environments_are_isolated_in_every_namespace_with_runs(
    render: Render, watched: list[str]
) -> None:
    values = {"watchNamespaces": watched, "kfp": {"multiUser": True}}
    found = calls(render(values, namespace="agentrl-system"), runs="team-a")
    assert {call for call in found if "environment" in call} == {
        ("stage", "environment", 8080),
        ("operator", "environment", 8080),
    }
