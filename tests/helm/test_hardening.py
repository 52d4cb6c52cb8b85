"""Pods comply with the `restricted` Pod Security Standard, and networks are closed."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered import Template

from agentrl_operator.manifests import ray_cluster
from agentrl_operator.manifests.labels import ENVIRONMENT
from agentrl_pipelines.kfp_pipeline import pipeline_spec
from agentrl_pipelines.labels import ENVIRONMENT_PORT, RAY_LABEL, RAY_PORT

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip


def violations(pod: Manifest) -> Iterator[str]:
    """Violations of the Pod Security Standard `restricted` (Kubernetes 1.36) in a pod's spec."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for volume in pod.get("volumes", ()):
        if not volume.keys() - {"name"} <= VOLUMES:
            yield f"volume {volume['name']}"
    shared = pod.get("securityContext", {})
    for container in [*pod.get("initContainers", ()), *pod["containers"]]:
        own = container.get("securityContext", {})
        name = container["name"]
        if own.get("privileged"):
            yield f"{name}: privileged"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True:
            yield f"{name}: runAsNonRoot"
        if own.get("runAsUser", shared.get("runAsUser")) == 0:
            yield f"{name}: runAsUser"
        seccomp = own.get("seccompProfile", shared.get("seccompProfile", {}))
        if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccompProfile"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()):
            yield f"{name}: capabilities.drop"
        if not set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities.add"
        if any("hostPort" in port for port in container.get("ports", ())):
            yield f"{name}: hostPort"


def pods(objects: list[Manifest]) -> dict[str, Manifest]:
    found = {}
    for one in objects:
        if one["kind"] == "Pod":
            found[one["metadata"]["name"]] = one["spec"]
        elif "template" in one.get("spec", {}):
            found[one["metadata"]["name"]] = one["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("pod", "forbidden"),
    [
        (
            {"hostNetwork": True, "containers": [{"name": "a"}]},
            {
                "hostNetwork",
                "a: allowPrivilegeEscalation",
                "a: runAsNonRoot",
                "a: seccompProfile",
                "a: capabilities.drop",
            },
        ),
        (
            {
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 0,
                    "seccompProfile": {"type": "Unconfined"},
                },
                "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
                "containers": [
                    {
                        "name": "a",
                        "ports": [{"hostPort": 80}],
                        "securityContext": {
                            "privileged": True,
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
                        },
                    }
                ],
            },
            {
                "volume node",
                "a: privileged",
                "a: runAsUser",
                "a: seccompProfile",
                "a: capabilities.add",
                "a: hostPort",
            },
        ),
    ],
)
def test_a_pod_that_violates_the_standard_is_detected(pod: Manifest, forbidden: set[str]) -> None:
    assert set(violations(pod)) == forbidden


def test_every_pod_is_restricted_with_a_read_only_root_and_memory_limits(
    render: Render, everything: Manifest
) -> None:
    found = pods(render(everything))
    assert set(found) == {"agentrl", "agentrl-minio", "agentrl-mlflow", "agentrl-test"}
    for name, pod in found.items():
        assert list(violations(pod)) == [], name
        assert pod["securityContext"]["runAsUser"] == 65532
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert "memory" in container["resources"]["limits"]
            assert not container["image"].endswith(":latest")


def test_store_keys_come_from_an_existing_secret_and_are_never_rendered(
    template: Callable[..., Any],
) -> None:
    values = {"storage": {"url": "s3://models", "region": "a", "existingSecret": "keys"}}
    rendered = template(values).stdout
    assert "kind: Secret\n" not in rendered
    assert '{secretKeyRef: {name: "keys", key: "accesskey"}}' in rendered
    assert '{secretKeyRef: {name: "keys", key: "secretkey"}}' in rendered


def test_the_minio_for_trials_has_random_keys_that_no_pod_spec_contains(
    render: Render, everything: Manifest
) -> None:
    keys = []
    for _ in range(2):
        objects = render(everything)
        secret = next(one for one in objects if one["kind"] == "Secret")
        keys.append(secret["data"]["secretkey"])
        assert not any(keys[-1] in str(pod) for pod in pods(objects).values())
    assert keys[0] != keys[1]
    assert len(keys[0]) > 50


def policies(objects: list[Manifest]) -> dict[str, Manifest]:
    return {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["spec"]
        for one in objects
        if one["kind"] == "NetworkPolicy"
    }


DNS = {
    "ports": [
        {"protocol": protocol, "port": port} for port in (53, 5353) for protocol in ("UDP", "TCP")
    ]
}
API_SERVER = {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]}


def labelled(key: str) -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def namespace(name: str) -> Manifest:
    labels = {"kubernetes.io/metadata.name": name}
    return {"to": [{"namespaceSelector": {"matchLabels": labels}}]}


SERVERS = {
    "ports": [{"protocol": "TCP", "port": ENVIRONMENT_PORT}],
    "to": [
        {
            "podSelector": labelled(ENVIRONMENT),
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["kubeflow"]}
                ]
            },
        }
    ],
}
"""Egress of the operator to environment servers."""
OPERATOR = {
    "app.kubernetes.io/name": "agentrl",
    "app.kubernetes.io/instance": "agentrl",
    "app.kubernetes.io/component": "operator",
}


def test_the_operator_can_reach_only_the_services_that_it_calls(render: Render) -> None:
    spec = policies(render())["kubeflow/agentrl"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [DNS, API_SERVER, SERVERS, namespace("kubeflow")]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": "metrics"}]}]


@pytest.mark.parametrize(
    ("endpoint", "rule"),
    [
        ("https://s3.example.org", {"ports": [{"protocol": "TCP", "port": 443}]}),
        ("s3.example.org:9000", {"ports": [{"protocol": "TCP", "port": 9000}]}),
        ("http://10.0.0.7", {"ports": [{"protocol": "TCP", "port": 80}]}),
        ("http://minio.storage.svc:9000", namespace("storage")),
        ("http://minio.storage.svc.cluster.local:9000", namespace("storage")),
        ("", {"ports": [{"protocol": "TCP", "port": 443}]}),
    ],
)
def test_egress_allows_the_namespace_of_a_cluster_address_and_the_port_of_any_other(
    render: Render, endpoint: str, rule: Manifest
) -> None:
    storage = {"url": "s3://models", "existingSecret": "keys", "region": "eu-west-1"}
    storage["endpoint"] = endpoint
    spec = policies(render({"storage": storage}))["kubeflow/agentrl"]
    assert spec["egress"] == [DNS, API_SERVER, SERVERS, namespace("kubeflow"), rule]


def test_environment_servers_accept_stages_samplers_and_the_operator_and_have_no_egress(
    render: Render,
) -> None:
    found = policies(render({"watchNamespaces": ["a", "b"]}))
    for where in ("a", "b"):
        spec = found[f"{where}/agentrl-environments"]
        assert spec["podSelector"] == labelled(ENVIRONMENT)
        assert spec["ingress"] == [
            {
                "from": [
                    {"podSelector": labelled(pipeline_spec.STAGE_LABEL)},
                    {"podSelector": labelled(RAY_LABEL)},
                    {
                        "podSelector": {"matchLabels": OPERATOR},
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": "kubeflow"}
                        },
                    },
                ],
                "ports": [{"protocol": "TCP", "port": ENVIRONMENT_PORT}],
            }
        ]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert spec["egress"] == []


def test_pods_of_ray_clusters_accept_only_each_other_and_no_dashboard(render: Render) -> None:
    spec = policies(render({"watchNamespaces": ["a"]}))["a/agentrl-ray"]
    assert spec["podSelector"] == labelled(RAY_LABEL)
    (ingress,) = spec["ingress"]
    assert ingress["from"] == [{"podSelector": labelled(RAY_LABEL)}]
    ranges = [(one["port"], one["endPort"]) for one in ingress["ports"]]

    def is_open(port: int) -> bool:
        return any(first <= port <= last for first, last in ranges)

    assert all(is_open(int(port)) for port in ray_cluster.PORTS.values())
    assert is_open(RAY_PORT)
    assert is_open(40000)  # where trainers meet
    assert not any(is_open(port) for port in (8265, int(ray_cluster.HEALTH_PORT), 8080))


def test_rays_dashboard_can_be_opened_for_some(render: Render) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    values = {"watchNamespaces": ["a"], "networkPolicy": {"rayFrom": [peer]}}
    _, opened = policies(render(values))["a/agentrl-ray"]["ingress"]
    assert opened["from"] == [peer]
    assert [one["port"] for one in opened["ports"]] == [8265, 8080]


def test_with_runs_in_any_profile_minio_and_mlflow_accept_all_namespaces(
    render: Render, everything: Manifest
) -> None:
    found = policies(render(everything))
    assert set(found) == {"kubeflow/agentrl", "kubeflow/agentrl-minio", "kubeflow/agentrl-mlflow"}
    assert found["kubeflow/agentrl-minio"]["ingress"] == [{"from": [{"namespaceSelector": {}}]}]


def test_minio_and_mlflow_accept_the_namespaces_with_runs(render: Render) -> None:
    values = {"minio": {"enabled": True}, "watchNamespaces": ["a"]}
    (ingress,) = policies(render(values))["kubeflow/agentrl-minio"]["ingress"]
    (peer,) = ingress["from"]
    (expression,) = peer["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["a", "kubeflow"]


def test_the_documentation_has_a_row_for_every_network_policy(render: Render) -> None:
    values = {"minio": {"enabled": True}, "mlflow": {"enabled": True}}
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    _, _, table = page.partition("| NetworkPolicy | pods |")
    rows = table.partition("\n\n")[0].splitlines()
    listed = {name for row in rows[2:] for name in re.findall("`([^`]+)`", row.split("|")[1])}
    assert listed == {name.removeprefix("kubeflow/") for name in policies(render(values))}


def test_the_policies_of_runs_can_be_created_in_profiles_as_the_documentation_says(
    render: Render, template: Template
) -> None:
    """A multi-user installation has none of its own without `watchNamespaces`."""
    values = {"kfp": {"multiUser": True}}
    assert set(policies(render(values, namespace="agentrl-system"))) == {"agentrl-system/agentrl"}
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    _, _, section = page.partition("### Network policies of profiles")
    (options,) = re.findall(r"--set '(.*)' --show-only (\S+)", section)
    (components,) = re.findall(r"-l 'app\.kubernetes\.io/component in \((.*)\)'", section)
    ended = template(
        values, "--set", options[0], "--show-only", options[1], namespace="agentrl-system"
    )
    created = {
        f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        for one in yaml.safe_load_all(ended.stdout)
        if one["metadata"]["labels"]["app.kubernetes.io/component"] in components.split(", ")
    }
    assert created == {
        f"{profile}/agentrl-{kind}"
        for profile in ("team-a", "team-b")
        for kind in ("environments", "ray")
    }


def test_network_policies_can_be_disabled(render: Render) -> None:
    assert policies(render({"networkPolicy": {"enabled": False}})) == {}
