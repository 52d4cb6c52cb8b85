"""The RayCluster of a run."""

import re

import pytest
from queued_world import PLATFORM
from ray_manifests import BODY, COMPUTE, SHARED_PODS, containers, groups, made, read
from world import UID

from agentrl_components.spec import parse
from agentrl_operator.manifests import workload
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform.kueue_pods import PodSetInfo


def test_all_pods_use_the_image_and_the_secrets_of_the_stages():
    for container in containers(made()):
        assert container["image"] == COMPUTE["image"]
        names = [one["name"] for one in container["env"]]
        assert names == [
            "HOME",
            "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AGENTRL_ENV_TOKEN",
        ]


def test_pods_comply_with_the_restricted_pod_security_standard():
    cluster = made()
    for container in containers(cluster):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
    pod = groups(cluster)["trainers"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False


def test_pods_have_the_service_account_of_the_run():
    pods = [one["template"]["spec"] for one in groups(made()).values()]
    assert all("serviceAccountName" not in pod for pod in pods)
    pods = [one["template"]["spec"] for one in groups(made(serviceAccount="trainer")).values()]
    assert [pod["serviceAccountName"] for pod in pods] == ["trainer", "trainer"]


def test_the_cluster_asks_for_a_token_that_its_drivers_have():
    assert made()["spec"]["authOptions"] == {"mode": "token"}
    pipeline = phase_pipeline(parse(BODY), UID, PLATFORM)
    executors = pipeline["pipeline_spec"]["deploymentSpec"]["executors"]
    assert executors["exec-train"]["container"]["env"] == [
        {"name": "RAY_ADDRESS", "value": "demo-6a1b2c3d-ray-head-svc.kubeflow.svc:6379"},
        {"name": "RAY_AUTH_MODE", "value": "token"},
    ]
    assert "env" not in executors["exec-provision"]["container"]
    options = pipeline["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    train = options["exec-train"]
    assert train["secretAsEnv"][-1] == {
        "secretName": "demo-6a1b2c3d-ray",
        "secretNameParameter": {"runtimeValue": {"constant": "demo-6a1b2c3d-ray"}},
        "keyToEnv": [{"secretKey": "auth_token", "envVar": "RAY_AUTH_TOKEN"}],
    }
    assert train["podMetadata"]["labels"]["agentrl.dev/ray"] == "driver"
    assert "agentrl.dev/ray" not in options["exec-expand"]["podMetadata"]["labels"]


def test_pods_run_on_the_nodes_that_kueue_assigned():
    taint = {"key": "spot", "operator": "Exists"}
    info = PodSetInfo(node_selector={"pool": "a"}, tolerations=(taint,))
    cluster = made({"ray-trainers": info})
    trainers = groups(cluster)["trainers"]["template"]["spec"]
    assert trainers["nodeSelector"] == {"gpu": "h100", "pool": "a"}
    assert trainers["tolerations"] == [taint]
    assert groups(cluster)["samplers"]["template"]["spec"]["nodeSelector"] == {"gpu": "h100"}
    assert cluster["metadata"]["annotations"] != made()["metadata"]["annotations"]


def kuberay_name(name):
    """The name that KubeRay gives to a cluster's Secret (`utils.CheckName` of 1.6.1)."""
    name = name[-50:]
    return name if name[0].isalpha() else f"r{name[1:]}"


@pytest.mark.parametrize("length", range(30, 53))
def test_stages_name_the_secret_that_kuberay_makes_for_a_run_with_a_long_name(length):
    name = ("run-" * 13)[: length - 1] + "x"
    cluster = made(name=name)["metadata"]["name"]
    assert re.fullmatch("[a-z]([-a-z0-9]{0,48}[a-z0-9])?", cluster)
    run = parse(BODY | {"metadata": BODY["metadata"] | {"name": name}})
    pipeline = phase_pipeline(run, UID, PLATFORM)
    options = pipeline["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert options["exec-train"]["secretAsEnv"][-1]["secretName"] == kuberay_name(cluster)
    executors = pipeline["pipeline_spec"]["deploymentSpec"]["executors"]
    env = {one["name"]: one["value"] for one in executors["exec-train"]["container"]["env"]}
    assert env["RAY_ADDRESS"] == f"{cluster}-head-svc.kubeflow.svc:6379"


def test_pods_end_at_once_when_they_are_asked_to():
    for container in containers(made()):
        assert {"name": "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "value": "0"} in container["env"]


def test_pods_have_no_sidecar_of_istio():
    spec = made()["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert group["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"


def test_kueue_counts_the_head_and_every_worker():
    one = read()
    pod_sets = workload.manifest(one, one.run)["spec"]["podSets"]
    assert [(one["name"], one["count"]) for one in pod_sets] == [
        ("train", 1),
        ("ray-head", 1),
        ("ray-trainers", 8),
        ("ray-samplers", 4),
        ("environment-babyai", 2),
    ]
    requests = pod_sets[3]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1", "memory": "80Gi", "nvidia.com/gpu": "2"}


def test_kueue_counts_pods_of_several_trainers_as_they_are():
    one = read(**SHARED_PODS)
    pod_sets = workload.manifest(one, one.run)["spec"]["podSets"]
    trainers = next(one for one in pod_sets if one["name"] == "ray-trainers")
    assert trainers["count"] == 2
    requests = trainers["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "6000m", "memory": "242.0Gi", "nvidia.com/gpu": "4"}
