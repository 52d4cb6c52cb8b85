"""Samplers on Ray whose engine is vLLM: hand-over of weights and of adapters, and dead engines.

One vLLM runs at a time. Slow: each takes 10 s to start, and two processes of one 20 s."""

import os
import signal

import pytest
from corridor_jobs import GREEDY, jobs
from learner_bench import spec
from needs_vllm import NEEDS_VLLM
from ray_bench import (
    connected,
    model_folder,
    open_trainers,
    pid,
    reserved,
    train,
)

from agentrl_components.ray_workers.group_samplers import RayGroupSamplers
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.lifetimes import Lasting
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.spec import Samplers
from agentrl_components.trajectory.record import Ending

pytest.importorskip("ray")
pytestmark = [*NEEDS_VLLM, pytest.mark.slow]

TINY = {"layers": 2, "hidden": 64, "heads": 2, "kvHeads": 2, "intermediate": 64}
MODEL = {"source": "tiny", "context": 64, "tiny": TINY}
ADAPTERS = {"rank": 4, "targets": ("q_proj", "v_proj", "down_proj")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with connected(trainers=2, samplers=2):
        yield model_folder(spec(model=MODEL), tmp_path_factory.mktemp("model"))


def play(manifest, model, trainers, adapters, break_engine=None):
    """Episodes before and after the engine was broken, and the samplers, which change then."""
    transfer = BucketTransfer(trainers.source, adapters=adapters)
    samplers = RaySamplers(manifest, model, reserved(), "cpu", transfer).open()
    try:
        played = [samplers.play([jobs(4)], GREEDY, 1)]
        if break_engine is not None:
            (broken,) = samplers.actors
            break_engine(broken)
            played.append(samplers.play([jobs(4)], GREEDY, 1))
            assert samplers.actors != [broken]
        return played, samplers
    finally:
        samplers.close()


def expected(manifest, model, trainers, adapters):
    torch_engine = manifest.model_copy(
        update={"rollout": manifest.rollout.model_copy(update={"engine": "torch"})}
    )
    (played,), samplers = play(torch_engine, model, trainers, adapters)
    return played, samplers


def assert_same(played, wanted):
    for share, other in zip(played, wanted, strict=True):
        for one, two in zip(share, other, strict=True):
            assert one.ending is not Ending.LOST
            assert one.ids.tolist() == two.ids.tolist()
            assert one.logprobs.tolist() == pytest.approx(two.logprobs.tolist(), abs=1e-4)
            assert [turn.version for turn in one.turns] == [1] * len(one.turns)


def kill_the_process_of_the_engine_core(actor):
    os.kill(pid(actor), signal.SIGKILL)


def shut_the_executor_down(actor):
    """What is left when a worker process of vLLM dies: every later step of the engine fails."""
    import ray

    def shut_down(sampler):
        core = sampler._player.vllm._loop._engine.engine_core.engine_core
        core.model_executor.driver_worker = None

    ray.get(actor.__ray_call__.remote(shut_down))


def worker_pids(actor):
    """The worker processes of an engine over several."""
    import ray

    def found(sampler):
        core = sampler._player.vllm._loop._engine.engine_core.engine_core
        return [worker.proc.pid for worker in core.model_executor.workers]

    return ray.get(actor.__ray_call__.remote(found))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(kill_the_process_of_the_engine_core, id="kill"),
        pytest.param(shut_the_executor_down, id="fail", marks=pytest.mark.nightly),
    ],
)
def test_a_dead_vllm_engine_is_replaced_and_its_episodes_are_played_again(folder, broken):
    manifest = spec(model=MODEL, rollout={"engine": "vllm"})
    trainers = open_trainers(manifest, folder, 1)
    try:
        train(trainers, manifest, 2)
        wanted, _ = expected(manifest, folder, trainers, adapters=False)
        played, samplers = play(manifest, folder, trainers, False, broken)
        for once in played:
            assert_same(once, wanted)
        (hand_over,) = samplers.handed_over
        assert hand_over.bytes == sum(t.nbytes for t in dict(trainers.weights()).values())
    finally:
        trainers.close()


def test_with_lora_only_the_adapters_are_handed_over(folder):
    manifest = spec(model=MODEL | {"lora": ADAPTERS}, rollout={"engine": "vllm"})
    trainers = open_trainers(manifest, folder, 1)
    try:
        train(trainers, manifest, 3)
        wanted, torch_samplers = expected(manifest, folder, trainers, adapters=True)
        (played,), samplers = play(manifest, folder, trainers, True)
        assert_same(played, wanted)
        # Two layers; A is [4, in], B is [out, 4]: q and v 64 to 64, down 64 to 64; float32.
        adapters = 2 * 3 * 4 * (64 + 64) * 4
        for one in (samplers, torch_samplers):
            assert [h.bytes for h in one.handed_over] == [adapters]
    finally:
        trainers.close()


def test_an_engine_over_two_processes_gives_the_replies_of_one(folder):
    manifest = spec(model=MODEL, rollout={"engine": "vllm"})
    trainers = open_trainers(manifest, folder, 1)
    try:
        train(trainers, manifest, 2)
        wanted, _ = expected(manifest, folder, trainers, adapters=False)
        # A manifest may split an engine over GPUs only.
        compute = manifest.compute.model_copy(update={"samplers": Samplers(tensor_parallel=2)})
        split = manifest.model_copy(update={"compute": compute})
        (played,), samplers = play(split, folder, trainers, False)
        assert_same(played, wanted)
        (hand_over,) = samplers.handed_over
        assert hand_over.bytes == sum(t.nbytes for t in dict(trainers.weights()).values())
    finally:
        trainers.close()


@pytest.mark.nightly
def test_an_engine_of_which_a_process_died_is_replaced_at_the_next_hand_over(folder):
    manifest = spec(model=MODEL, rollout={"engine": "vllm"})
    compute = manifest.compute.model_copy(update={"samplers": Samplers(tensor_parallel=2)})
    manifest = manifest.model_copy(update={"compute": compute})
    trainers = open_trainers(manifest, folder, 1)
    transfer = BucketTransfer(trainers.source, adapters=False)
    samplers = RaySamplers(manifest, folder, reserved(), "cpu", transfer).open()
    try:
        samplers.play([jobs(4)], GREEDY, 1)
        (broken,) = samplers.actors
        workers = worker_pids(broken)
        assert len(workers) == 2
        os.kill(workers[1], signal.SIGKILL)
        train(trainers, manifest, 2)
        (played,) = samplers.play([jobs(4)], GREEDY, 2)
        assert samplers.actors != [broken]
        assert all(one.ending is not Ending.LOST for one in played)
        assert {turn.version for one in played for turn in one.turns} == {2}
    finally:
        samplers.close()
        trainers.close()


@pytest.mark.parametrize(
    "lora",
    [
        pytest.param(None, id="weights"),
        pytest.param(ADAPTERS, id="adapters", marks=pytest.mark.nightly),
    ],
)
def test_an_engine_that_is_taken_over_in_a_hand_over_plays_the_weights_of_the_next(folder, lora):
    import ray

    manifest = spec(model=MODEL | {"lora": lora}, rollout={"engine": "vllm"})
    trainers = open_trainers(manifest, folder, 1)
    transfer = BucketTransfer(trainers.source, adapters=lora is not None)

    def samplers():
        return RaySamplers(manifest, folder, reserved(), "cpu", transfer, Lasting("a")).open()

    try:
        first = samplers()
        first.play([jobs(4)], GREEDY, 5)
        groups = RayGroupSamplers(first)
        for number in range(8):
            groups.start(number, jobs(4), GREEDY)
        (broken,) = first.actors
        ray.get(broken.start_update.remote("broken"))
        parts = trainers.source.buckets(adapters=lora is not None, limit=1)
        ray.get(broken.load.remote("broken", next(parts)))
        list(parts)
        train(trainers, manifest, 3)
        wanted, _ = expected(manifest, folder, trainers, adapters=lora is not None)
        second = samplers()
        try:
            assert second.taken_over == 1
            assert_same(second.play([jobs(4)], GREEDY, 1), wanted)
        finally:
            second.close()
    finally:
        trainers.close()
