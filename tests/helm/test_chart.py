"""Manifests that the chart renders from its values."""

import re
import subprocess

import pytest
import yaml
from rendered import CHART, Manifest, Render, Template, kinds


class Numbers(yaml.SafeLoader):
    """Loader with the floats of YAML 1.2: Helm writes 1e-06, which is a string in YAML 1.1."""


Numbers.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def test_helm_lint_passes(helm: str) -> None:
    ended = subprocess.run(
        [helm, "lint", "--strict", str(CHART)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout


def test_the_defaults_install_an_operator_and_no_store_or_tracker(render: Render) -> None:
    assert kinds(render()) == [
        "ClusterRole",
        "ClusterRole",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "NetworkPolicy",
        "NetworkPolicy",
        "NetworkPolicy",
        "Pod",
        "PodDisruptionBudget",
        "Role",
        "Role",
        "RoleBinding",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ]


def test_all_options_together_render_with_the_common_labels(
    render: Render, everything: Manifest
) -> None:
    objects = render(everything)
    assert {"PersistentVolumeClaim", "ServiceMonitor", "PodMonitor", "PrometheusRule"} <= set(
        kinds(objects)
    )
    assert {one["metadata"]["labels"].get("team") for one in objects} == {"rl"}


def test_the_crd_is_the_generated_one_and_is_kept_on_uninstall(
    template: Template,
) -> None:
    rendered = template(None, "--show-only", "templates/crd.yaml").stdout
    crd = yaml.load(rendered, Loader=Numbers)
    generated = yaml.load((CHART / "files" / "crd.yaml").read_text(), Loader=Numbers)
    assert crd["spec"] == generated["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crd_can_be_left_out(render: Render) -> None:
    assert "CustomResourceDefinition" not in kinds(render({"crds": {"enabled": False}}))


def test_selectors_match_exactly_their_own_pods(render: Render, everything: Manifest) -> None:
    objects = render(everything)
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in objects
        if one["kind"] == "Deployment"
    }
    selectors = {
        one["metadata"]["name"]: one["spec"]["selector"]
        for one in objects
        if one["kind"] == "Service"
    }
    found = {
        service: [pod for pod, labels in pods.items() if selector.items() <= labels.items()]
        for service, selector in selectors.items()
    }
    assert found == {
        "agentrl-metrics": ["agentrl"],
        "agentrl-minio": ["agentrl-minio"],
        "agentrl-mlflow": ["agentrl-mlflow"],
    }


def test_probes_use_a_port_of_the_container(render: Render, everything: Manifest) -> None:
    for one in render(everything):
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            ports = {port["name"] for port in container["ports"]}
            for probe in ("readinessProbe", "livenessProbe"):
                assert container[probe]["httpGet"]["port"] in ports


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"minio": {"enabled": True}, "storage": {"url": "s3://models"}}, "storage.url"),
        ({"storage": {"url": "s3://models"}}, "storage.region"),
        ({"storage": {"url": "s3://models", "region": "eu-west-1"}}, "storage.existingSecret"),
        ({"storage": {"endpoint": "http://s3:9000"}}, "storage.url"),
        ({"storage": {"workloadIdentity": True}}, "storage.url"),
        (
            {
                "storage": {
                    "url": "s3://models",
                    "region": "eu-west-1",
                    "workloadIdentity": True,
                    "existingSecret": "k",
                }
            },
            "storage.existingSecret",
        ),
        (
            {"storage": {"others": [{"workloadIdentity": True, "existingSecret": "k"}]}},
            "storage.others[0].existingSecret",
        ),
        (
            {"storage": {"others": [{"workloadIdentity": False}]}},
            "storage.others[0].existingSecret",
        ),
        ({"mlflow": {"enabled": True}, "tracking": {"uri": "http://m"}}, "tracking.uri"),
        ({"tracking": {"existingSecret": "k"}}, "tracking.existingSecret"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
    ],
)
def test_contradicting_values_are_rejected_by_name(
    template: Template, values: Manifest, complaint: str
) -> None:
    ended = template(values)
    assert ended.returncode != 0
    assert complaint in ended.stderr


def test_common_labels_replace_labels_but_not_those_that_select_pods(template: Template) -> None:
    labels = {"app.kubernetes.io/part-of": "training", "app.kubernetes.io/component": "mine"}
    rendered = template({"commonLabels": labels}).stdout
    for one in yaml.compose_all(rendered):
        if one is not None:
            assert_keys_are_unique(one)
    (deployment,) = (
        one for one in yaml.safe_load_all(rendered) if one and one["kind"] == "Deployment"
    )
    found = deployment["spec"]["template"]["metadata"]["labels"]
    assert found["app.kubernetes.io/part-of"] == "training"
    assert found["app.kubernetes.io/component"] == "operator"


def assert_keys_are_unique(node: yaml.Node) -> None:
    """Check every mapping below `node`: YAML's parsers keep the last of equal keys."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        for _, value in node.value:
            assert_keys_are_unique(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            assert_keys_are_unique(value)
