from typing import Any

import pytest
import yaml
from rule_violations.manifest import MANIFEST

from agentrl_components.spec import RunSpec, local_mistakes, parse
from agentrl_components.spec.rules.local import local_warnings

INSTALL = "install the extra `{0}` (`pip install '.[{0}]'` in a checkout of AgentRL)"


def warnings(
    devices: Any,
    packages: tuple[str, ...] = (),
    commands: tuple[str, ...] = ("gcc", "g++"),
    **fields: Any,
) -> list[str]:
    """Of a machine with torch, and with these packages and commands besides."""
    spec = RunSpec.model_validate(
        {
            "environments": [{"name": "walk", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        }
        | fields
    )
    installed = ("torch", *packages).__contains__
    found = local_warnings(spec, devices, installed, commands.__contains__)
    return [str(warning) for warning in found]


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


def test_files_on_a_claim_are_in_pods_only(tmp_path):
    there = {"source": "file:///models/qwen"}
    claims = {"volumes": [{"claim": "models", "path": "/models"}]}
    assert warnings(tmp_path, model=there, compute=claims | {"ray": "cluster"}) == []
    missing = "spec.model.source: /models/qwen does not exist; check the path"
    assert missing in warnings(tmp_path, model=there, compute=claims)
    beside = {"volumes": [{"claim": "models", "path": "/mod"}], "ray": "cluster"}
    assert missing in warnings(tmp_path, model=there, compute=beside)


@pytest.mark.parametrize(
    ("environment", "fix"),
    [
        ({"builtin": "corridor"}, ", or set replicas to 0 and workers to 1 or more"),
        ({"builtin": "sciworld"}, ""),
    ],
)
def test_a_timeout_in_the_process_of_the_run_has_no_effect(tmp_path, environment, fix):
    assert (
        "spec.environments[0].timeoutS: has no effect on this machine, where a builtin without "
        "workers runs in the process of the run: a call cannot be ended there; serve it with "
        f"agentrl envs serve and set url{fix}"
    ) in warnings(tmp_path, environments=[{"name": "walk", "timeoutS": 5} | environment])


@pytest.mark.parametrize(
    "environment",
    [
        {"builtin": "corridor", "replicas": 0, "workers": 1},
        {"url": "http://127.0.0.1:8000"},
    ],
)
def test_a_timeout_of_processes_and_servers_has_an_effect(tmp_path, environment):
    assert warnings(tmp_path, environments=[{"name": "walk", "timeoutS": 5} | environment]) == []


def test_a_missing_gpu_is_reported(tmp_path):
    cuda = {"device": "cuda"}
    assert warnings(tmp_path, compute=cuda) == [
        "spec.compute.device: there is no NVIDIA GPU; set it to auto or cpu"
    ]
    (tmp_path / "nvidia0").touch()
    assert warnings(tmp_path, compute=cuda) == []
    assert warnings(tmp_path) == []


def test_a_gpu_for_what_is_on_ray_is_not_looked_for(tmp_path):
    """`device` has no effect there, which a rule says."""
    cuda = {"device": "cuda", "ray": "head:6379"}
    assert warnings(tmp_path, ("ray",), compute=cuda) == []


def test_a_missing_vllm_is_reported(tmp_path):
    vllm = {"engine": "vllm"}
    assert warnings(tmp_path, ("vllm",), rollout=vllm) == []
    assert warnings(tmp_path, (), rollout=vllm) == [
        f"spec.rollout.engine: vllm is not installed; {INSTALL.format('vllm')}, or set it to torch"
    ]


def test_a_missing_torch_is_reported(tmp_path):
    spec = RunSpec.model_validate(
        {
            "environments": [{"name": "walk", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
        }
    )
    (warning,) = local_warnings(spec, tmp_path, ().__contains__)
    assert str(warning) == (
        "spec.model.source: torch, which computes the model, is not installed; "
        f"{INSTALL.format('train')}"
    )


def test_a_run_on_a_ray_cluster_of_its_own_needs_no_packages_of_this_machine(tmp_path):
    assert not warnings(
        tmp_path,
        compute={"ray": "cluster", "device": "cuda", "trainers": {"gpus": 1}},
        rollout={"engine": "vllm"},
        update={"compile": True},
        environments=[{"name": "lab", "builtin": "sciworld"}],
        commands=(),
    )


COMPILE = {"update": {"compile": True}, "compute": {"ray": "embedded"}}
ON_GPU = {"ray": "embedded", "trainers": {"gpus": 1}, "samplers": {"gpus": 1}}
VLLM = {"rollout": {"engine": "vllm"}}


@pytest.mark.parametrize(
    ("fields", "field", "names"),
    [
        (COMPILE, "update.compile", ["g++"]),
        (COMPILE | {"compute": ON_GPU}, "update.compile", ["gcc", "clang"]),
        (VLLM | {"compute": ON_GPU}, "rollout.engine", ["gcc", "clang"]),
        (VLLM, "rollout.engine", ["gcc", "clang"]),
    ],
)
def test_a_missing_compiler_is_reported(tmp_path, monkeypatch, fields, field, names):
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    for number in range(2):
        (tmp_path / f"nvidia{number}").touch()
    packages = ("ray", "vllm")
    assert warnings(tmp_path, packages, (), **fields) == [
        f"spec.{field}: needs a compiler when it runs, and none is on PATH ({' or '.join(names)}); "
        "apt-get install g++ python3-dev"
    ]
    for name in names:
        assert warnings(tmp_path, packages, (name,), **fields) == []


def test_compilers_of_the_machines_of_a_ray_cluster_are_not_looked_for(tmp_path):
    fields = COMPILE | {"compute": {"ray": "head:6379"}}
    assert warnings(tmp_path, ("ray",), (), **fields) == []


def test_more_episodes_in_a_process_than_it_has_sessions_for_are_reported(tmp_path):
    def of(sessions: int, evaluated: int = 128, **rollout: int) -> list[str]:
        web = {"name": "web", "builtin": "web", "options": {"sessions": sessions}}
        samplers = {"ray": "embedded", "samplers": {"count": 2}}
        found = warnings(
            tmp_path,
            ("ray",),
            environments=[web],
            compute=samplers,
            rollout={"tasks": 32, "groupSize": 4} | rollout,
            evaluation={"tasks": evaluated // 2, "samples": 2},
        )
        return [line for line in found if ".options" in line]

    assert of(60) == [
        "spec.environments[0].options: a process then plays 64 episodes at the same time in "
        "training, but has web sessions for 60; other episodes are lost; set rollout.concurrency "
        "to 60, or raise sessions"
    ]
    (warning,) = of(64, evaluated=130)
    assert "a process then plays 65 episodes at the same time in evaluations, but" in warning
    assert of(64) == of(60, concurrency=60) == []


def test_episodes_of_a_warm_start_are_counted_where_it_plays(tmp_path):
    def of(algorithm: str) -> list[str]:
        lab = {"name": "lab", "builtin": "sciworld"}
        few = {"tasks": 4, "groupSize": 4}
        warm = {"algorithm": algorithm, "episodes": 300}
        if algorithm == "sft":
            warm["trajectories"] = "s3://bucket/some.jsonl"
        found = warnings(
            tmp_path,
            environments=[lab],
            rollout=few,
            evaluation={"tasks": 20},
            warmStart=warm,
            compute={"workers": 2},
        )
        return [line for line in found if ".options" in line]

    (warning,) = of("hindsight")
    assert "a process then plays 150 episodes at the same time in the warm start, but" in warning
    assert of("filtered-imitation") == [warning]
    assert of("sft") == []


def test_vllm_on_a_machine_without_gpus_needs_no_compiler(tmp_path):
    assert warnings(tmp_path, ("vllm",), (), **VLLM) == []


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
        f"spec.compute.ray: ray is not installed; {INSTALL.format('ray')}, or leave it out"
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


def test_gpus_that_trainers_and_samplers_share_are_counted_once(tmp_path):
    compute = {
        "ray": "embedded",
        "shareGpus": True,
        "trainers": {"count": 2, "gpus": 1},
        "samplers": {"count": 2, "gpus": 1},
    }
    (tmp_path / "nvidia0").touch()
    (warning,) = warnings(tmp_path, ("ray",), compute=compute)
    assert warning == (
        "spec.compute.trainers.count: trainers and samplers share 2 GPUs, but this machine has 1; "
        "lower the count of both"
    )
    (tmp_path / "nvidia1").touch()
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
