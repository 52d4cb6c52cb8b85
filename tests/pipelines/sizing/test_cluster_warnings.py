"""Environment servers without room or memory for the sessions of a run, and trainers with a pod
each."""

from __future__ import annotations

import pytest

from agentrl_components.spec import RunSpec
from agentrl_envs.protocol import DEFAULT_CAPACITY
from agentrl_envs.server.app import ServerOptions
from agentrl_pipelines.cli.env_commands.serve import serve
from agentrl_pipelines.sizing.cluster_warnings import (
    embedded_warnings,
    memory_warnings,
    pod_warnings,
    server_warnings,
)


def warnings(*environments: dict[str, object], at_once: int = 100_000) -> list[str]:
    """Of 100 tasks in groups of 8."""
    named = [{"name": f"e{i}"} | e for i, e in enumerate(environments)]
    spec = run(environments=named, rollout={"tasks": 100, "groupSize": 8})
    return [str(warning) for warning in server_warnings(spec, at_once)]


def run(**fields: object) -> RunSpec:
    return RunSpec.model_validate(
        {"horizon": {"phases": [{"maxTurns": 4, "iterations": 1}]}, **fields}
    )


def test_a_server_has_room_for_256_sessions_unless_it_is_told_otherwise():
    (option,) = (one for one in serve.params if one.name == "capacity")
    assert option.default == ServerOptions().capacity == DEFAULT_CAPACITY == 256


def test_too_few_servers_for_the_open_sessions_name_the_number_that_is_needed():
    assert warnings({"builtin": "corridor", "replicas": 3}) == [
        "spec.environments[0].replicas: is 3; on Kubernetes servers of 256 sessions then have room "
        "for 768 of the 800 that are open at the same time in training, and the others wait; set "
        "it to 4, or lower rollout.concurrency"
    ]
    assert warnings({"builtin": "corridor", "replicas": 4}) == []
    assert warnings({"builtin": "corridor", "replicas": 3}, at_once=768) == []


def test_sessions_of_an_evaluation_may_wait():
    worlds = [{"name": "e", "builtin": "corridor"}]
    spec = run(environments=worlds, evaluation={"tasks": 130, "samples": 2})
    assert list(server_warnings(spec, 100_000)) == []


def test_sessions_of_a_warm_start_may_wait_but_need_memory():
    def of(builtin: str) -> list[str]:
        warm = {"algorithm": "hindsight", "episodes": 300}
        worlds = [{"name": "e", "builtin": builtin, "replicas": 4, "memory": "1Gi"}]
        few = {"tasks": 5, "groupSize": 8}
        spec = run(environments=worlds, rollout=few, evaluation={"tasks": 40}, warmStart=warm)
        return [str(one) for one in server_warnings(spec, 100_000)]

    assert of("corridor") == []
    (warning,) = of("sciworld")
    assert "a server has up to 64 sessions of 17 MiB each" in warning


def test_environments_share_the_sessions_by_their_weights():
    # 75 and 25 tasks: 600 and 200 sessions.
    heavy, light = {"builtin": "corridor", "weight": 3}, {"builtin": "corridor"}
    (warning,) = warnings(light, heavy)
    assert warning.startswith("spec.environments[1].replicas: is 1;")
    assert "256 of the 600" in warning
    assert "set it to 3," in warning


def test_servers_whose_number_follows_the_load_are_counted_with_the_largest_number():
    scaling = {"maxReplicas": 7, "sessionsPerServer": 100}
    (warning,) = warnings({"builtin": "corridor", "scaling": scaling})
    assert warning.startswith("spec.environments[0].scaling.maxReplicas: is 7;")
    assert "700 of the 800" in warning
    assert "set it to 8," in warning


def test_environments_without_servers_of_a_known_capacity_are_not_warned_about():
    inside = {"builtin": "corridor", "replicas": 0}
    elsewhere = {"url": "http://worlds.example"}
    other = {"image": "registry.example/world:1"}
    assert warnings(inside) == warnings(elsewhere) == warnings(other) == []


def test_options_of_an_environment_bound_the_sessions_of_a_server():
    (warning,) = warnings({"builtin": "sciworld", "replicas": 2}, at_once=130)
    assert "2; on Kubernetes servers of 64 sessions then have room for 128 of the 130" in warning
    assert "set it to 3," in warning
    more = {"builtin": "sciworld", "options": {"worlds": 128}, "memory": "4Gi", "replicas": 2}
    assert warnings(more, at_once=130) == []


def test_servers_whose_memory_is_too_small_for_their_sessions_name_the_memory_that_is_needed():
    web = {"builtin": "web", "replicas": 2}
    assert warnings(web, at_once=128) == [
        "spec.environments[0].memory: is 2048Mi; on Kubernetes a server has up to 64 sessions of "
        "100 MiB each, and is killed when they take more; set it to 6848Mi, or lower "
        "options.sessions and raise replicas"
    ]
    assert warnings(web | {"memory": "7Gi"}, at_once=128) == []
    assert warnings(web, at_once=16) == []
    (warning,) = warnings({"builtin": "miniwob"}, at_once=100)
    assert warning.endswith("set it to 10448Mi")


@pytest.mark.parametrize(
    ("compute", "warned"),
    [
        ({"ray": "cluster", "trainers": {"count": 4, "gpus": 1}}, True),
        ({"ray": "cluster", "trainers": {"count": 4, "gpus": 1, "perPod": 2}}, False),
        ({"ray": "cluster", "trainers": {"count": 1, "gpus": 1}}, False),
        ({"ray": "cluster", "trainers": {"count": 4}}, False),
        ({"ray": "embedded", "trainers": {"count": 4, "gpus": 1}}, False),
    ],
)
def test_trainers_on_gpus_with_a_pod_each_are_a_warning(compute, warned):
    spec = run(compute=compute, environments=[{"name": "e", "builtin": "corridor"}])
    fields = [one.field for one in pod_warnings(spec)]
    assert fields == (["spec.compute.trainers.perPod"] if warned else [])


def embedded(taken: int | None = None, **compute: object) -> list[str]:
    spec = run(
        compute={"ray": "embedded"} | compute, environments=[{"name": "e", "builtin": "corridor"}]
    )
    return [str(one) for one in (*embedded_warnings(spec), *memory_warnings(spec, taken))]


def gpus(trainers: int, samplers: int) -> dict[str, object]:
    return {
        "trainers": {"count": trainers, "gpus": 1},
        "samplers": {"count": samplers, "gpus": 1},
    }


def test_an_embedded_ray_with_more_gpus_than_the_pod_of_a_stage_is_a_warning():
    assert embedded(gpus=1, **gpus(2, 1)) == [
        "spec.compute.ray: is embedded; on Kubernetes all trainers and samplers are then in one "
        "pod, which has 1 of the 3 GPUs that they need (compute.gpus, at most 1); set it to "
        "cluster there, which has pods for trainers and for samplers"
    ]
    assert embedded(gpus=1, trainers={"gpus": 1}) == embedded() == []
    assert embedded(ray="cluster", **gpus(2, 1)) == []


def test_an_embedded_ray_with_more_gpus_than_a_machine_usually_has_is_a_warning():
    (warning,) = embedded(**gpus(8, 1))
    assert "need 9 GPUs in one machine, which usually has at most 8; set it to cluster" in warning
    assert "in one pod" in embedded(**gpus(7, 1))[0]


def test_an_embedded_ray_that_takes_more_memory_than_the_pod_of_a_stage_is_a_warning():
    # 2Gi by default: 2,048 MiB, and 5 % of them are 102.4.
    assert embedded(taken=2150 << 20) == []
    assert embedded(taken=2151 << 20) == [
        "spec.compute.memory: is 2Gi; on Kubernetes all trainers and samplers of an embedded Ray "
        "are in one pod, and take about 2.1 GiB; set it to 3Gi"
    ]
    assert embedded(taken=3 << 30, memory="3Gi") == []


def test_stages_without_ray_whose_processes_take_more_memory_than_their_pod_are_a_warning():
    """Regression: plan said that the run fits in 2Gi, and the stage was killed for memory."""
    assert embedded(ray=None, taken=2 << 30) == []
    assert embedded(ray=None, taken=21 << 30) == [
        "spec.compute.memory: is 2Gi; on Kubernetes the processes of a stage's pod take about "
        "21.0 GiB; set it to 21Gi"
    ]
