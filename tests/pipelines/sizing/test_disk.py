"""Disk for the temporary files of pods."""

import pytest

from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.disk import disk_warnings, pod_disk
from agentrl_pipelines.sizing.model_size import ModelSize

GIB = 1 << 30
SIZE = ModelSize(total=8 * GIB, trainable=8 * GIB, embedding=0, block=0, largest=0, root=0)
"""A model of 8.6 billion parameters: 16 GiB in bfloat16, and 96 GiB of weights and moments."""


def spec(*, source="hf://org/model", algorithm="grpo", lora=None, **compute):
    return RunSpec.model_validate_json(
        RunSpec.model_validate(
            {
                "model": {"source": source, "dtype": "bfloat16", "lora": lora},
                "algorithm": {"name": algorithm},
                "environments": [{"name": "e", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 3, "iterations": 2}]},
                "compute": {"ray": "cluster", "trainers": {"count": 4, "perPod": 2}} | compute,
            }
        ).model_dump_json(by_alias=True)
    )


def test_a_pod_has_the_model_once_and_the_parts_of_its_trainers():
    # Two of four trainers: half of 96 GiB. 2 GiB are for logs and kernels.
    assert pod_disk(spec(), SIZE) == {"trainers": (16 + 48 + 2) * GIB, "samplers": 18 * GIB}


def test_a_critic_has_as_much_state_as_the_policy():
    assert pod_disk(spec(algorithm="ppo"), SIZE)["trainers"] == (16 + 96 + 2) * GIB


def test_adapters_alone_have_state():
    size = ModelSize(total=9 * GIB, trainable=GIB, embedding=0, block=0, largest=0, root=0)
    assert pod_disk(spec(lora={}), size)["trainers"] == (16 + 6 + 2) * GIB


def test_a_model_on_a_claim_is_not_copied():
    found = pod_disk(spec(source="file:///models/qwen"), SIZE)
    assert found == {"trainers": 50 * GIB, "samplers": 2 * GIB}


def test_pods_of_an_address_are_not_planned():
    assert pod_disk(spec(ray="head:6379"), SIZE) == {}


@pytest.mark.parametrize("storage", [{}, {"storageClass": "fast"}])
def test_too_little_disk_is_a_warning_with_what_each_actor_needs(storage):
    small = spec(
        trainers={"count": 4, "perPod": 2, "disk": "32Gi"}, samplers={"disk": "18Gi"}, **storage
    )
    assert [str(one) for one in disk_warnings(small, pod_disk(small, SIZE))] == [
        "spec.compute.trainers.disk: is 32Gi, and a pod has 64Gi; its temporary files take "
        "66.0 GiB; set it to 33Gi"
    ]


def test_enough_disk_and_none_at_all_are_no_warning():
    enough = spec(trainers={"count": 4, "perPod": 2, "disk": "33Gi"})
    assert list(disk_warnings(enough, pod_disk(enough, SIZE))) == []
