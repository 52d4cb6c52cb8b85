"""The RayCluster of a run."""

import json
import re

import pytest
from queued_world import PLATFORM
from world import UID

from agentrl_components.ray_workers.resources import reservations
from agentrl_components.spec import Compute, parse
from agentrl_operator.api import resource
from agentrl_operator.manifests import ray_cluster, workload
from agentrl_pipelines.kfp_pipeline.pipeline_spec import phase_pipeline
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

COMPUTE = {
    "ray": "cluster",
    "image": "registry.test/agentrl@sha256:" + "0" * 64,
    "trainers": {"count": 8, "gpus": 1, "cpu": "1500m", "memory": "60Gi"},
    "samplers": {"count": 4, "gpus": 2, "tensorParallel": 2, "memory": "80Gi"},
    "nodeSelector": {"gpu": "h100"},
}
BODY = {
    "apiVersion": "agentrl.dev/v1alpha1",
    "kind": "AgentRLRun",
    "metadata": {"name": "demo", "namespace": "kubeflow"},
    "spec": {
        "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
        "model": {"source": "hf://Qwen/Qwen2.5-7B-Instruct"},
        "rollout": {"engine": "vllm"},
        "environments": [
            {
                "name": "babyai",
                "builtin": "babyai",
                "replicas": 2,
                "options": {"text": "agentgym"},
            }
        ],
        "compute": COMPUTE,
    },
}


SHARED_PODS = {
    "trainers": COMPUTE["trainers"] | {"memory": "60.5Gi", "perPod": 4},
    "samplers": COMPUTE["samplers"] | {"perPod": 2},
}


def read(name="demo", **compute):
    """The run of the manifest with other fields of `compute`, as the operator has it."""
    metadata = BODY["metadata"] | {"name": name, "uid": UID}
    spec = BODY["spec"] | {"compute": COMPUTE | compute}
    one = resource.read(BODY | {"metadata": metadata, "spec": spec}, PLATFORM)
    assert one.run is not None, one.mistakes
    return one


def made(nodes=None, name="demo", **compute):
    one = read(name, **compute)
    return ray_cluster.manifest(one, one.run, PLATFORM, nodes or {})


def groups(cluster):
    return {one["groupName"]: one for one in cluster["spec"]["workerGroupSpecs"]}


def containers(cluster):
    spec = cluster["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        yield group["template"]["spec"]["containers"][0]


def test_each_trainer_and_each_sampler_is_a_pod_with_its_resources():
    cluster = made()
    assert cluster["apiVersion"] == "ray.io/v1"
    assert cluster["metadata"]["name"] == "demo-6a1b2c3d-ray"
    assert cluster["metadata"]["ownerReferences"][0]["uid"] == UID
    trainers, samplers = groups(cluster)["trainers"], groups(cluster)["samplers"]
    assert (trainers["replicas"], trainers["minReplicas"], trainers["maxReplicas"]) == (8, 8, 8)
    assert samplers["replicas"] == 4
    assert trainers["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1500m", "memory": "60Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "60Gi", "nvidia.com/gpu": "1"},
    }
    started = trainers["rayStartParams"]
    assert (started["num-cpus"], started["num-gpus"]) == ("2", "1")
    assert started["resources"] == "'{\"trainers\": 1}'"
    assert samplers["rayStartParams"]["resources"] == "'{\"samplers\": 1}'"
    assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_a_pod_of_several_trainers_has_the_resources_of_all():
    trainers = groups(made(**SHARED_PODS))["trainers"]
    assert (trainers["replicas"], trainers["minReplicas"], trainers["maxReplicas"]) == (2, 2, 2)
    assert trainers["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "6000m", "memory": "242.0Gi", "nvidia.com/gpu": "4"},
        "limits": {"memory": "242.0Gi", "nvidia.com/gpu": "4"},
    }
    started = trainers["rayStartParams"]
    assert (started["num-cpus"], started["num-gpus"]) == ("8", "4")
    assert ray_cluster.actors_per_pod(trainers) == 4


def test_a_pod_of_several_samplers_has_the_gpus_of_all_engines():
    samplers = groups(made(**SHARED_PODS))["samplers"]
    assert samplers["replicas"] == 2
    assert samplers["rayStartParams"]["num-gpus"] == "4"
    assert ray_cluster.actors_per_pod(samplers) == 2


@pytest.mark.parametrize("compute", [{}, SHARED_PODS])
def test_nodes_have_the_resources_that_their_actors_reserve(compute):
    reserved = reservations(Compute.model_validate(COMPUTE | compute))
    for actor, counts in (
        (reserved.trainer, reserved.trainers),
        (reserved.sampler, reserved.samplers),
    ):
        options = actor.options()
        (resource_name,) = options["resources"]
        group = groups(made(**compute))[resource_name]
        node, fits = group["rayStartParams"], counts.per_pod
        assert float(node["num-cpus"]) == fits * options["num_cpus"]
        assert float(node["num-gpus"]) == fits * options["num_gpus"]
        assert json.loads(node["resources"].strip("'")) == {resource_name: fits}
        assert group["replicas"] * fits == counts.count


IN_TURNS = {
    "shareGpus": True,
    "trainers": {"count": 8, "gpus": 1, "cpu": "4", "memory": "60Gi", "disk": "30Gi", "perPod": 4},
    "samplers": {"count": 8, "gpus": 1, "cpu": "500m", "memory": "40Gi", "disk": "20Gi"},
}


def test_a_pod_of_trainers_that_share_gpus_also_has_the_resources_of_their_samplers():
    (trainers,) = groups(made(**IN_TURNS)).values()
    assert trainers["replicas"] == 2
    assert trainers["template"]["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "18000m",
        "memory": "400Gi",
        "nvidia.com/gpu": "4",
        "ephemeral-storage": "200Gi",
    }
    reserved = reservations(Compute.model_validate(COMPUTE | IN_TURNS))
    assert reserved.missing({"trainers": 7.0}) == "7 of 8 trainers"
    assert reserved.missing({"trainers": 8.0}) == ""
    one = read(**IN_TURNS)
    counted = {
        one["name"]: one["count"] for one in workload.manifest(one, one.run)["spec"]["podSets"]
    }
    assert {name: n for name, n in counted.items() if name.startswith("ray")} == {
        "ray-head": 1,
        "ray-trainers": 2,
    }


DISKS = {
    "trainers": COMPUTE["trainers"] | {"perPod": 4, "disk": "26.5Gi"},
    "samplers": COMPUTE["samplers"] | {"disk": "20Gi"},
}


def test_pods_request_disk_for_all_of_their_actors_and_are_limited_to_it():
    cluster = made(**DISKS)
    pod = groups(cluster)["trainers"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert resources["requests"]["ephemeral-storage"] == "106.0Gi"
    assert resources["limits"]["ephemeral-storage"] == "106.0Gi"
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert head["resources"]["requests"] == {"cpu": "500m", "memory": "2Gi"}
    one = read(**DISKS)
    counted = workload.manifest(one, one.run)["spec"]["podSets"][2]["template"]["spec"]
    assert counted["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "106.0Gi"


def test_temporary_files_are_on_a_volume_of_the_storage_class_that_goes_with_the_pod():
    cluster = made(**DISKS, storageClass="fast")
    pod = groups(cluster)["trainers"]["template"]["spec"]
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "106.0Gi"}},
    }
    (files,) = pod["volumes"]
    assert files == {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    assert "ephemeral-storage" not in pod["containers"][0]["resources"]["requests"]
    assert pod["securityContext"]["fsGroup"]  # by which the user of the pod may write to it
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    assert head["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_stages_and_pods_of_ray_mount_the_claims_of_the_manifest():
    volumes = [{"claim": "models", "path": "/models"}, {"claim": "worlds", "path": "/mnt/worlds"}]
    pod = groups(made(volumes=volumes))["samplers"]["template"]["spec"]
    assert pod["volumes"][1:] == [
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "worlds", "persistentVolumeClaim": {"claimName": "worlds"}},
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "models", "mountPath": "/models"},
        {"name": "worlds", "mountPath": "/mnt/worlds"},
    ]


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
