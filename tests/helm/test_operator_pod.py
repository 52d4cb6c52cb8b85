"""The pod of the operator."""

import pytest
from rendered import Manifest, Render, the

from agentrl_operator.__main__ import main
from agentrl_pipelines.platform import config


def test_there_is_one_leader_and_a_new_configuration_restarts_the_pod(render: Render) -> None:
    before = the(render(), "Deployment", "agentrl")["spec"]
    after = the(render({"pollSeconds": 9}), "Deployment", "agentrl")["spec"]
    assert before["replicas"] == 1
    mark = "checksum/platform"
    assert (
        before["template"]["metadata"]["annotations"][mark]
        != after["template"]["metadata"]["annotations"][mark]
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_release_with_an_image_that_does_not_start_is_not_available(
    render: Render, replicas: int
) -> None:
    """`helm --wait` and the condition Available require `replicas - maxUnavailable` ready pods.
    With maxUnavailable 1 and one replica, both would be met without a ready pod."""
    spec = the(render({"operator": {"replicas": replicas}}), "Deployment", "agentrl")["spec"]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (spec["replicas"], spec["strategy"]) == (replicas, rolling)
    probe = spec["template"]["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"] == {"path": "/readyz", "port": "metrics"}


def test_the_operator_gets_the_namespaces_to_watch(render: Render) -> None:
    pod = the(render({"watchNamespaces": ["a", "b"]}), "Deployment", "agentrl")["spec"]["template"]
    assert pod["spec"]["containers"][0]["args"] == [
        "--platform=/etc/agentrl/platform.yaml",
        "--namespace=a",
        "--namespace=b",
        "--lease=$(POD_NAMESPACE)/agentrl",
        "--lease-seconds=15",
        "--metrics-port=8080",
        "--log-format=json",
    ]


def test_the_operator_accepts_its_arguments(render: Render, everything: Manifest) -> None:
    values = everything | {"watchNamespaces": ["a", "b"]}
    pod = the(render(values), "Deployment", "agentrl")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["command"] == ["python3", "-m", "agentrl_operator"]
    told = main.make_context("agentrl_operator", list(container["args"])).params
    assert told["path"] == config.ADDRESS
    assert tuple(told["namespaces"]) == ("a", "b")
    assert (str(told["lease"]), told["lease_seconds"]) == ("$(POD_NAMESPACE)/agentrl", 15)
    assert told["metrics_port"] == container["ports"][0]["containerPort"]
    assert told["log_format"] == "json"


def test_all_settings_of_the_pod_are_configurable(render: Render, everything: Manifest) -> None:
    template = the(render(everything), "Deployment", "agentrl")["spec"]["template"]
    pod = template["spec"]
    assert template["metadata"]["labels"]["c"] == "d"
    assert template["metadata"]["annotations"]["e"] == "f"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "control", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["priorityClassName"] == "high"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["image"] == "ghcr.io/agentrl/agentrl-operator:1.2"
    assert {"name": "SSL_CERT_FILE", "value": "/ca/ca.crt"} in pod["containers"][0]["env"]
    assert {"name": "ca", "mountPath": "/ca"} in pod["containers"][0]["volumeMounts"]
    assert {"name": "ca", "configMap": {"name": "ca"}} in pod["volumes"]
