"""Samplers that are given what changed of the weights, on an embedded Ray."""

import os
import signal

import pytest
from corridor_jobs import jobs
from corridor_rules import RULES
from learner_bench import spec
from ray_bench import (
    connected,
    model_folder,
    objective,
    open_trainers,
    pid,
    reserved,
    skewed_examples,
)

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.hand_over.sparse import SparseTransfer
from agentrl_components.ray_workers.samplers import RaySamplers

pytest.importorskip("ray")

SPEC = spec(model={"dtype": "bfloat16"}, update={"miniBatch": 4, "microBatchTokens": 90})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with connected(trainers=2, samplers=2):
        yield model_folder(SPEC, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def trainers(model):
    opened = open_trainers(SPEC, model, 2)
    yield opened
    opened.close()


@pytest.fixture
def samplers(trainers, model):
    transfer = SparseTransfer(trainers.source, BucketTransfer(trainers.source, adapters=False))
    opened = RaySamplers(SPEC, model, reserved(), "cpu", transfer).open()
    yield opened
    opened.close()


def train(trainers, seed, rate=1e-6):
    examples = skewed_examples(seed)
    trainers.differentiate(objective(examples, SPEC.algorithm), examples)
    trainers.step("policy", rate)


def expected(trainers, model, version):
    """What a sampler plays that is given all weights."""
    transfer = BucketTransfer(trainers.source, adapters=False)
    samplers = RaySamplers(SPEC, model, reserved(), "cpu", transfer).open()
    try:
        return samplers.play([jobs(4)], RULES, version)
    finally:
        samplers.close()


def assert_equal(played, wanted):
    for one, other in zip(played[0], wanted[0], strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert one.logprobs.tolist() == other.logprobs.tolist()


def test_changes_give_the_episodes_of_all_weights_and_a_new_sampler_gets_them_too(
    trainers, model, samplers
):
    total = sum(tensor.nbytes for tensor in dict(trainers.weights()).values())
    played = {}
    for version in (1, 2, 3):
        train(trainers, version)
        played[version] = samplers.play([jobs(4)], RULES, version)
    assert played[1][0][0].logprobs.tolist() != played[3][0][0].logprobs.tolist()
    os.kill(pid(samplers.actors[0]), signal.SIGKILL)
    assert_equal(samplers.play([jobs(4)], RULES, 3), played[3])  # by one that got all weights
    train(trainers, 4)
    again = samplers.play([jobs(4)], RULES, 4)
    assert_equal(again, expected(trainers, model, 4))
    train(trainers, 5, rate=0.1)
    samplers.hand_over(5)
    sizes = [one.bytes for one in samplers.handed_over]
    assert [size == total for size in sizes] == [True, False, False, False, True]
    assert all(0 < size < total / 2 for size in sizes[1:4])


def test_a_sampler_takes_changes_since_its_own_version_only(samplers):
    samplers.hand_over(2)
    (sampler,) = samplers.actors
    results([sampler.start_update.remote("one", 2)])
    with pytest.raises(WorkersLostError, match="of version 1 are needed, and it has those of"):
        results([sampler.start_update.remote("other", 1)])
