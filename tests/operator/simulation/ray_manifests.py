"""Manifests of Ray clusters of a run."""

from queued_world import PLATFORM
from world import UID

from agentrl_operator.api import resource
from agentrl_operator.manifests import ray_cluster

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
