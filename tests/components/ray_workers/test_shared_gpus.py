"""Trainers and samplers that use the same devices in turns, on an embedded Ray.

There is no GPU here: the memory that they share is the machine's, and the torch engine does not
sleep."""

import os
import signal
from pathlib import Path

import pytest
from corridor_jobs import jobs
from corridor_rules import RULES
from learner_bench import spec
from ray_bench import connected, model_folder, open_trainers, pid, reserved, train

from agentrl_components.ray_workers.actors import Actors
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.hand_over.same_gpu import SameGpuTransfer
from agentrl_components.ray_workers.samplers import RaySamplers

pytest.importorskip("ray")

SPEC = spec(
    update={"miniBatch": 4, "microBatchTokens": 90},
    compute={
        "ray": "embedded",
        "trainers": {"count": 2, "cpu": "500m"},
        "samplers": {"count": 2},
        "shareGpus": True,
    },
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with connected(trainers=4, samplers=1):
        yield model_folder(SPEC, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def actors(model):
    with Actors(SPEC, model, trains=True, note=print) as opened:
        yield opened


@pytest.fixture(scope="module")
def expected(model):
    """What samplers play after two updates of two trainers, with devices of their own."""
    trainers = open_trainers(SPEC, model, 2)
    train(trainers, SPEC, 2)
    transfer = BucketTransfer(trainers.source, adapters=False)
    samplers = RaySamplers(SPEC, model, reserved(), "cpu", transfer).open()
    (played,) = samplers.play([jobs(4)], RULES, 2)
    samplers.close()
    trainers.close()
    return played


def assert_equal(played, wanted):
    for one, other in zip(played, wanted, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert one.logprobs.tolist() == other.logprobs.tolist()


def asleep(samplers):
    """Whether each sampler waits for weights."""

    def version(sampler):
        return sampler._version

    return [v < 0 for v in results([a.__ray_call__.remote(version) for a in samplers.actors])]


def test_samplers_play_with_the_weights_of_the_trainers_and_sleep_while_these_compute(
    expected, actors
):
    trainers, samplers = actors.trainers, actors.samplers
    weights = sum(tensor.nbytes for tensor in dict(trainers.weights()).values())
    assert samplers.play([jobs(4)], RULES, 1)
    assert asleep(samplers) == [False, False]
    train(trainers, SPEC, 2)
    assert asleep(samplers) == [True, True]
    both = samplers.play([jobs(4), jobs(4)], RULES, 2)
    for played in both:
        assert_equal(played, expected)
    assert_equal(samplers.play([jobs(4)], RULES, 2)[0], expected)  # without a hand-over
    assert [one.bytes for one in samplers.handed_over] == [weights, weights]


def shared_files(trainers):
    """The memory that trainers share, which torch keeps until all addresses were read."""
    pids = [pid(actor) for actor in trainers._actors]
    return [path.name for one in pids for path in Path("/dev/shm").glob(f"torch_{one}_*")]


def test_a_sampler_that_dies_gets_the_device_of_its_trainer_again(expected, actors):
    del expected  # has trained
    samplers = actors.samplers
    (before,) = samplers.play([jobs(4)], RULES, 2)
    os.kill(pid(samplers.actors[0]), signal.SIGKILL)
    assert_equal(samplers.play([jobs(4)], RULES, 2)[0], before)  # while it was awake
    samplers.sleep()
    os.kill(pid(samplers.actors[1]), signal.SIGKILL)
    both = samplers.play([jobs(4), jobs(4)], RULES, 2)  # while it was asleep
    for played in both:
        assert_equal(played, before)
    assert results([actor.rank.remote() for actor in samplers.actors]) == [0, 1]


def test_a_hand_over_to_some_samplers_leaves_no_memory_with_the_trainers(expected, actors):
    """Regression: all trainers shared their weights, also those whose sampler did not take part."""
    del expected  # has trained
    samplers, trainers = actors.samplers, actors.trainers
    samplers.sleep()
    trainers.rest()
    done = SameGpuTransfer(trainers.source).send_again(samplers.actors[:1], 2)
    assert done.bytes == sum(tensor.nbytes for tensor in dict(trainers.weights()).values())
    assert shared_files(trainers) == []
    samplers.hand_over(2)
