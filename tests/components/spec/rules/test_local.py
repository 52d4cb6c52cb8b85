from typing import Any

import yaml
from rule_violations.manifest import MANIFEST

from agentrl_components.spec import RunSpec, local_mistakes, parse
from agentrl_components.spec.rules.local import local_warnings


def warnings(devices: Any, packages: tuple[str, ...] = (), **fields: Any) -> list[str]:
    spec = RunSpec.model_validate(
        {
            "environments": [{"name": "walk", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        }
        | fields
    )
    return [str(warning) for warning in local_warnings(spec, devices, packages.__contains__)]


def test_missing_files_are_reported(tmp_path):
    (tmp_path / "there is one.jsonl").touch()
    assert warnings(
        tmp_path,
        model={"source": f"file://{tmp_path}/model"},
        warmStart={"algorithm": "sft", "trajectories": f"file://{tmp_path}/none.jsonl"},
    ) == [
        f"spec.model.source: {tmp_path}/model does not exist; check the path",
        f"spec.warmStart.trajectories: {tmp_path}/none.jsonl does not exist; check the path",
    ]
    assert not warnings(
        tmp_path,
        model={"source": f"file://{tmp_path}"},
        warmStart={"algorithm": "sft", "trajectories": f"file://{tmp_path}/there%20is%20one.jsonl"},
    )


def test_a_missing_gpu_is_reported(tmp_path):
    cuda = {"device": "cuda"}
    assert warnings(tmp_path, compute=cuda) == [
        "spec.compute.device: there is no NVIDIA GPU; set it to auto or cpu"
    ]
    (tmp_path / "nvidia0").touch()
    assert warnings(tmp_path, compute=cuda) == []
    assert warnings(tmp_path) == []


def test_a_missing_vllm_is_reported(tmp_path):
    vllm = {"engine": "vllm"}
    assert warnings(tmp_path, ("vllm",), rollout=vllm) == []
    assert warnings(tmp_path, (), rollout=vllm) == [
        "spec.rollout.engine: vllm is not installed; install agentrl[vllm], or set it to torch"
    ]


def test_an_environment_whose_package_is_missing_is_reported(tmp_path):
    def of(**environment: str) -> list[str]:
        return warnings(tmp_path, environments=[{"name": "own", **environment}])

    missing = "is installed; install its package with pip"
    field = "spec.environments[0].builtin: no package with"
    assert of(builtin="no_such.world:Tasks") == [f"{field} no_such.world:Tasks {missing}"]
    assert of(builtin="no-such", image="a/b:1") == [f"{field} no-such {missing}"]
    assert of(builtin="agentrl_envs.environments.corridor:CorridorTasks") == []


def test_a_missing_ray_is_reported(tmp_path):
    assert warnings(tmp_path, compute={"ray": "head:6379"}) == [
        "spec.compute.ray: ray is not installed; install agentrl[ray], or leave it out"
    ]
    assert warnings(tmp_path, ("ray",), compute={"ray": "head:6379"}) == []


def test_more_trainers_than_gpus_of_this_machine_are_reported(tmp_path):
    compute = {"ray": "embedded", "trainers": {"count": 2, "gpus": 1}, "samplers": {"gpus": 1}}
    (tmp_path / "nvidia0").touch()
    assert warnings(tmp_path, ("ray",), compute=compute) == [
        "spec.compute.trainers.count: trainers need 2 GPUs and samplers 1, but this machine has 1; "
        "lower count or gpus of either"
    ]
    (tmp_path / "nvidia1").touch()
    (tmp_path / "nvidia2").touch()
    assert warnings(tmp_path, ("ray",), compute=compute) == []


def test_an_image_with_a_builtin_needs_no_kubernetes():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["environments"][0] |= {"image": "example.org/own:1"}
    assert list(local_mistakes(parse(read))) == []


def test_container_images_and_suspended_runs_are_rejected_without_kubernetes():
    read = yaml.safe_load(MANIFEST)
    read["spec"]["environments"][0] = {"name": "web", "image": "example.org/web:1"}
    read["spec"]["suspend"] = True
    assert [str(mistake) for mistake in local_mistakes(parse(read))] == [
        "spec.environments[0].image: a container image needs Kubernetes; start the server yourself "
        "and set url, or apply the manifest to a cluster",
        "spec.suspend: the run is suspended; set it to false, or run with --set suspend=false",
    ]
