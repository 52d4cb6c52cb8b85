"""The RayCluster of a run."""

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


def made(nodes=None, name="demo"):
    body = BODY | {"metadata": BODY["metadata"] | {"name": name}}
    one = resource.read(body | {"metadata": body["metadata"] | {"uid": UID}}, PLATFORM)
    assert one.run is not None, one.mistakes
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


def test_nodes_have_the_resources_that_their_actors_reserve():
    reserved = reservations(Compute.model_validate(COMPUTE))
    for actor in (reserved.trainer, reserved.sampler):
        (resource_name,) = actor.options()["resources"]
        node = groups(made())[resource_name]["rayStartParams"]
        assert node["resources"] == f"'{{\"{resource_name}\": 1}}'"


def test_all_pods_use_the_image_and_the_secrets_of_the_stages():
    for container in containers(made()):
        assert container["image"] == COMPUTE["image"]
        names = [one["name"] for one in container["env"]]
        assert names == ["HOME", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AGENTRL_ENV_TOKEN"]


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


def test_the_name_leaves_room_for_those_of_kuberays_services():
    assert len(made(name="a" * 52)["metadata"]["name"]) == 53


def test_kueue_counts_the_head_and_every_worker():
    one = resource.read(BODY | {"metadata": BODY["metadata"] | {"uid": UID}}, PLATFORM)
    pod_sets = workload.manifest(one, parse(BODY))["spec"]["podSets"]
    assert [(one["name"], one["count"]) for one in pod_sets] == [
        ("train", 1),
        ("ray-head", 1),
        ("ray-trainers", 8),
        ("ray-samplers", 4),
        ("environment-babyai", 2),
    ]
    requests = pod_sets[3]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1", "memory": "80Gi", "nvidia.com/gpu": "2"}
