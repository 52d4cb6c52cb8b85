"""A sampler on Ray whose engine is vLLM. Slow: a vLLM takes 10 s to start."""

import importlib.util
import os
import signal

import pytest
from learner_bench import spec
from ray_bench import open_trainers, reserved, train

from agentrl_components.model.sources import fetch_model
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.weight_transfer import ObjectStoreTransfer
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Ending
from agentrl_envs.environments.corridor import CorridorTasks

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed"),
]

TASKS = CorridorTasks()
TINY = {"layers": 2, "hidden": 64, "heads": 2, "kvHeads": 2, "intermediate": 64}
MODEL = {"source": "tiny", "context": 64, "tiny": TINY}
GREEDY = Rules(
    max_turns=4,
    context=64,
    max_tokens_per_turn=4,
    temperature=0.0,
    top_p=1.0,
    admissible=True,
    seed=3,
    purpose="train/0",
)
JOBS = [
    Job(
        environment="corridor",
        instructions="walk",
        task=TASKS.task("train", index),
        group=index,
        sample=0,
        iteration=0,
    )
    for index in range(4)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    disconnect = connect("embedded", reserved(trainers=2, samplers=2))
    place = tmp_path_factory.mktemp("model")
    path = fetch_model(spec(model=MODEL).model, TASKS.vocabulary(), 0, place)
    yield ModelFolder(path=path, vocabulary=TASKS.vocabulary())
    disconnect()


def play(manifest, model, trainers, kill=False):
    """Episodes, those after the process of the engine core was killed, and the samplers."""
    samplers = RaySamplers(manifest, model, reserved(), "cpu", ObjectStoreTransfer(trainers))
    try:
        played = [samplers.play([JOBS], GREEDY, 1)]
        if kill:
            os.kill(pid(samplers._actors[0]), signal.SIGKILL)
            played.append(samplers.play([JOBS], GREEDY, 1))
        return played, samplers
    finally:
        samplers.close()


def pid(actor):
    import ray

    return ray.get(actor.__ray_call__.remote(lambda _: __import__("os").getpid()))


def assert_same(played, wanted):
    for share, other in zip(played, wanted, strict=True):
        for one, two in zip(share, other, strict=True):
            assert one.ending is not Ending.LOST
            assert one.ids.tolist() == two.ids.tolist()
            assert one.logprobs.tolist() == pytest.approx(two.logprobs.tolist(), abs=1e-4)
            assert [turn.version for turn in one.turns] == [1] * len(one.turns)


def test_a_vllm_engine_that_was_killed_is_replaced_and_its_episodes_are_played_again(model):
    manifest = spec(model=MODEL, rollout={"engine": "vllm"})
    torch_manifest = spec(model=MODEL)
    trainers = open_trainers(manifest, model, 1)
    try:
        train(trainers, manifest, 2)
        (wanted,), _ = play(torch_manifest, model, trainers)
        played, samplers = play(manifest, model, trainers, kill=True)
        for once in played:
            assert_same(once, wanted)
        assert samplers.replaced == 1
        (hand_over,) = samplers.handed_over
        assert hand_over.bytes == sum(t.nbytes for t in trainers.weights().values())
    finally:
        trainers.close()
