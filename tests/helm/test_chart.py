"""What the chart makes of its values."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentrl_operator.__main__ import main
from agentrl_pipelines import platform

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "agentrl"
Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Template = Callable[..., subprocess.CompletedProcess[str]]


class Numbers(yaml.SafeLoader):
    """YAML 1.2's floats: Helm writes 1e-06, which YAML 1.1 takes for a string."""


Numbers.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def the(objects: list[Manifest], kind: str, name: str) -> Manifest:
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def kinds(objects: list[Manifest]) -> list[str]:
    return sorted(one["kind"] for one in objects)


def settings(objects: list[Manifest], folder: Path) -> platform.Platform:
    path = folder / "platform.yaml"
    path.write_text(the(objects, "ConfigMap", "agentrl-platform")["data"]["platform.yaml"])
    return platform.load(path)


def test_helm_finds_nothing_to_complain_about(helm: str) -> None:
    ended = subprocess.run(
        [helm, "lint", "--strict", str(CHART)],
        capture_output=True,
        text=True,
        timeout=60,
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
        "Pod",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    ]


def test_everything_at_once_renders_and_carries_the_common_labels(
    render: Render, everything: Manifest
) -> None:
    objects = render(everything)
    assert {"PersistentVolumeClaim", "ServiceMonitor", "PodMonitor", "PrometheusRule"} <= set(
        kinds(objects)
    )
    assert {one["metadata"]["labels"].get("team") for one in objects} == {"rl"}


def test_the_definition_is_the_generated_one_and_outlives_the_release(
    template: Template,
) -> None:
    rendered = template(None, "--show-only", "templates/crd.yaml").stdout
    crd = yaml.load(rendered, Loader=Numbers)
    generated = yaml.load((CHART / "files" / "crd.yaml").read_text(), Loader=Numbers)
    assert crd["spec"] == generated["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definition_can_be_left_to_somebody_else(render: Render) -> None:
    assert "CustomResourceDefinition" not in kinds(render({"crds": {"enabled": False}}))


def test_the_defaults_describe_kubeflow_pipelines_as_it_installs_itself(
    render: Render, tmp_path: Path
) -> None:
    told = settings(render(), tmp_path)
    assert told.kfp.url == "http://ml-pipeline.kubeflow.svc:8888"
    assert (told.kfp.namespace, told.kfp.multi_user, told.kfp.token_file) == (
        "kubeflow",
        False,
        None,
    )
    assert told.storage.url == "s3://mlpipeline/agentrl"
    assert told.storage.endpoint == "http://minio-service.kubeflow.svc:9000"
    assert told.storage.secret == platform.StorageSecret(
        name="mlpipeline-minio-artifact", access_key="accesskey", secret_key="secretkey"
    )
    assert told.tracking == platform.Mlflow(uri=None, ui_url=None)
    assert told.images.stage == "ghcr.io/agentrl/agentrl:0.1.0"
    assert told.kueue.admission == "pods"
    assert told.poll_seconds == 5


def test_a_store_and_a_tracker_of_ones_own_reach_the_operator(
    render: Render, tmp_path: Path
) -> None:
    values = {
        "storage": {
            "url": "s3://models/agents",
            "region": "eu-west-1",
            "existingSecret": "keys",
            "accessKey": "AK",
            "secretKey": "SK",
        },
        "tracking": {"uri": "https://mlflow.example.org"},
        "images": {
            "stage": {"repository": "registry:5000/agentrl", "digest": "sha256:" + "0" * 64}
        },
        "kueue": {"admission": "run"},
        "pollSeconds": 0.5,
    }
    told = settings(render(values), tmp_path)
    assert (told.storage.url, told.storage.endpoint) == ("s3://models/agents", None)
    assert told.storage.region == "eu-west-1"
    assert told.storage.secret == platform.StorageSecret(
        name="keys", access_key="AK", secret_key="SK"
    )
    assert told.tracking.uri == "https://mlflow.example.org"
    assert told.images.stage == "registry:5000/agentrl@sha256:" + "0" * 64
    assert told.kueue.admission == "run"
    assert told.poll_seconds == 0.5


def test_the_try_out_servers_are_what_the_operator_is_told_of(
    render: Render, everything: Manifest, tmp_path: Path
) -> None:
    objects = render(everything)
    told = settings(objects, tmp_path)
    assert told.storage.url == "s3://agentrl"
    assert told.storage.endpoint == "http://agentrl-minio.kubeflow.svc:9000"
    assert told.tracking.uri == "http://agentrl-mlflow.kubeflow.svc:5000"
    secret = the(objects, "Secret", told.storage.secret.name)
    assert set(secret["data"]) == {told.storage.secret.access_key, told.storage.secret.secret_key}
    bucket = the(objects, "Deployment", "agentrl-minio")["spec"]["template"]["spec"][
        "initContainers"
    ][0]
    assert bucket["command"][-1] == "/data/agentrl"


def test_mlflow_answers_by_its_services_names_and_the_ones_it_is_given(
    render: Render, everything: Manifest
) -> None:
    server = the(render(everything), "Deployment", "agentrl-mlflow")
    environment = {
        one["name"]: one["value"]
        for one in server["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert {
        "localhost:*",
        "agentrl-mlflow.kubeflow.svc:*",
        "agentrl-mlflow.kubeflow.svc.cluster.local:*",
        "mlflow.example.org",
    } <= set(environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))


def test_for_many_users_the_operator_carries_a_token_of_its_own(
    render: Render, tmp_path: Path
) -> None:
    objects = render({"kfp": {"multiUser": True}})
    pod = the(objects, "Deployment", "agentrl")["spec"]["template"]["spec"]
    mount = next(m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "kfp-token")
    volume = next(v for v in pod["volumes"] if v["name"] == "kfp-token")
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == "pipelines.kubeflow.org"
    told = settings(objects, tmp_path)
    assert told.kfp.multi_user
    assert str(told.kfp.token_file) == f"{mount['mountPath']}/{token['path']}"


def test_one_operator_decides_and_a_new_configuration_restarts_it(render: Render) -> None:
    before = the(render(), "Deployment", "agentrl")["spec"]
    after = the(render({"pollSeconds": 9}), "Deployment", "agentrl")["spec"]
    assert (before["replicas"], before["strategy"]) == (1, {"type": "Recreate"})
    mark = "checksum/platform"
    assert (
        before["template"]["metadata"]["annotations"][mark]
        != after["template"]["metadata"]["annotations"][mark]
    )


def test_the_operator_is_told_which_namespaces_to_watch(render: Render) -> None:
    pod = the(render({"watchNamespaces": ["a", "b"]}), "Deployment", "agentrl")["spec"]["template"]
    assert pod["spec"]["containers"][0]["args"] == [
        "--platform=/etc/agentrl/platform.yaml",
        "--namespace=a",
        "--namespace=b",
        "--metrics-port=8080",
        "--log-format=json",
    ]


def test_the_operator_understands_what_it_is_told(render: Render, everything: Manifest) -> None:
    values = everything | {"watchNamespaces": ["a", "b"]}
    pod = the(render(values), "Deployment", "agentrl")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["command"] == ["python3", "-m", "agentrl_operator"]
    told = main.make_context("agentrl_operator", list(container["args"])).params
    assert told["path"] == platform.ADDRESS
    assert tuple(told["namespaces"]) == ("a", "b")
    assert told["metrics_port"] == container["ports"][0]["containerPort"]
    assert told["log_format"] == "json"


def test_everything_about_the_operators_pod_can_be_set(
    render: Render, everything: Manifest
) -> None:
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


def test_selectors_find_their_own_pods_and_no_others(render: Render, everything: Manifest) -> None:
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


def test_probes_ask_the_port_that_the_container_opens(render: Render, everything: Manifest) -> None:
    for one in render(everything):
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            ports = {port["name"] for port in container["ports"]}
            for probe in ("readinessProbe", "livenessProbe"):
                assert container[probe]["httpGet"]["port"] in ports


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"minio": {"enabled": True}, "storage": {"url": "s3://b"}}, "storage.url"),
        ({"storage": {"url": "s3://b"}}, "storage.existingSecret"),
        ({"storage": {"endpoint": "http://s3:9000"}}, "storage.url"),
        (
            {"minio": {"enabled": True}, "storage": {"existingSecret": "k"}},
            "storage.existingSecret",
        ),
        ({"mlflow": {"enabled": True}, "tracking": {"uri": "http://m"}}, "tracking.uri"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
    ],
)
def test_values_that_contradict_each_other_are_refused_by_name(
    template: Template, values: Manifest, complaint: str
) -> None:
    ended = template(values)
    assert ended.returncode != 0
    assert complaint in ended.stderr


@pytest.fixture
def notes(template: Template, tmp_path: Path) -> Callable[..., str]:
    """What `helm install` prints at its end; without a cluster Helm keeps it to itself."""
    chart = tmp_path / "agentrl"
    shutil.copytree(CHART, chart)
    shutil.copy(chart / "templates" / "NOTES.txt", chart / "notes.txt")
    shown = 'notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    (chart / "templates" / "shown.yaml").write_text(shown)

    def told(values: Manifest | None = None, namespace: str = "kubeflow") -> str:
        ended = template(
            values, "--show-only", "templates/shown.yaml", chart=chart, namespace=namespace
        )
        assert ended.returncode == 0, ended.stderr
        (shown,) = (one for one in yaml.safe_load_all(ended.stdout) if one)
        return str(shown["notes"])

    return told


def test_the_notes_give_the_next_three_commands(notes: Callable[..., str]) -> None:
    assert [line.strip() for line in notes().splitlines() if line.startswith("  kubectl")] == [
        "kubectl -n kubeflow rollout status deployment/agentrl",
        "kubectl -n kubeflow apply -f examples/babyai.yaml",
        "kubectl -n kubeflow get arl --watch",
    ]


def test_the_notes_say_when_a_secret_is_needed_elsewhere(notes: Callable[..., str]) -> None:
    assert "Secret" not in notes()
    told = notes({"minio": {"enabled": True}}, namespace="agents")
    assert "The Secret agentrl-minio must be in agents and in kubeflow." in told


def test_the_notes_leave_the_profile_to_a_person_where_there_are_many(
    notes: Callable[..., str],
) -> None:
    assert "kubectl -n PROFILE apply -f examples/babyai.yaml" in notes({"kfp": {"multiUser": True}})


def test_the_plain_manifests_are_the_chart(helm: str) -> None:
    plain = ROOT / "helm" / "plain"
    made = subprocess.run(
        [str(plain / "render.sh")],
        env={"HELM": helm, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    kept = (plain / "agentrl.yaml").read_text()
    assert sorted(map(str, yaml.safe_load_all(kept))) == sorted(map(str, yaml.safe_load_all(made)))


def test_kustomize_reads_the_plain_manifests() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("No kubectl: kustomize is not run.")
    built = subprocess.run(
        [kubectl, "kustomize", str(ROOT / "helm" / "plain")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= {
        one["kind"] for one in yaml.safe_load_all(built)
    }
