"""The pods of a run's RayCluster."""

import json

import pytest
from queued_world import PLATFORM
from ray_manifests import COMPUTE, SHARED_PODS, groups, made, read
from world import UID

from agentrl_components.ray_workers.resources import reservations
from agentrl_components.spec import Compute
from agentrl_operator.manifests import ray_cluster, workload
from agentrl_pipelines.platform.config import CaBundle, Proxy


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
    security = pod["securityContext"]
    assert security["fsGroup"]  # by which the user of the pod may write to it
    assert security["fsGroupChangePolicy"] == "OnRootMismatch"
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


def test_nodes_trust_the_authorities_of_the_platform_and_use_its_proxy():
    one = read(env=[{"name": "HTTP_PROXY", "value": "http://other:3128"}])
    platform = PLATFORM.model_copy(
        update={
            "ca_bundle": CaBundle(config_map="ca"),
            "proxy": Proxy(http="http://proxy:3128", no_proxy=(".svc",)),
        }
    )
    cluster = ray_cluster.manifest(one, one.run, platform, {})
    spec = cluster["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        variables = [(one["name"], one.get("value")) for one in container["env"]]
        assert ("SSL_CERT_FILE", "/etc/agentrl-ca/ca.crt") in variables
        assert ("NO_PROXY", ".svc") in variables
        assert [v for name, v in variables if name.lower() == "http_proxy"] == ["http://other:3128"]
        assert {"name": "ca", "configMap": {"name": "ca"}} in pod["volumes"]
        mount = {"name": "ca", "mountPath": "/etc/agentrl-ca", "readOnly": True}
        assert mount in container["volumeMounts"]
