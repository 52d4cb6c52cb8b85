"""The trainers' side of a hand-over over NCCL, with samplers that stand for those with GPUs."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import pytest
from ray_bench import connected

from agentrl_components.errors import EngineError, WorkersLostError
from agentrl_components.ray_workers.hand_over.nccl_sender import RankWeights, SamplersClient, Sender

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def ray():
    with connected(trainers=1, samplers=1) as ray:
        yield ray


class RecordingSampler:
    """Stands for an actor, and keeps the calls of its methods."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, method):
        return RecordingMethod(method, self.calls)


@dataclass
class RecordingMethod:
    name: str
    calls: list

    def remote(self, *arguments):
        import ray

        self.calls.append((self.name, *arguments))
        return ray.put(None)


def test_every_worker_of_every_engine_has_a_rank_of_its_own_in_the_process_group(ray):
    samplers = [RecordingSampler(), RecordingSampler()]
    client = SamplersClient(samplers, tensor_parallel=2)
    assert client.members == 5  # the sender, and two engines of two workers
    client.init_weight_transfer_engine({"world_size": 5, "rank_offset": 1})
    assert [one.calls for one in samplers] == [
        [("join_nccl", {"world_size": 5, "rank_offset": 1})],
        [("join_nccl", {"world_size": 5, "rank_offset": 3})],
    ]


def test_all_calls_of_a_hand_over_have_its_name_which_no_other_has(ray):
    sampler = RecordingSampler()
    client = SamplersClient([sampler], tensor_parallel=1)
    for client.version in (3, 4):
        client.start_weight_update()
        client.update_weights({"names": ["a"]})
        client.finish_weight_update()
    first, second = sampler.calls[0][1], sampler.calls[3][1]
    assert first != second
    assert sampler.calls == [
        ("start_update", first),
        ("receive", first, {"names": ["a"]}),
        ("finish_update", first, 3),
        ("start_update", second),
        ("receive", second, {"names": ["a"]}),
        ("finish_update", second, 4),
    ]


class BlockedEngine:
    """Calls its client as vLLM's engine of a trainer does, and broadcasts until it is shut down, as
    NCCL does if a process of the group does not take part."""

    def __init__(self, client):
        self.client = client
        self.ended = Event()

    def send_weights(self):
        with ThreadPoolExecutor(max_workers=1) as thread:
            receiving = thread.submit(self.client.update_weights, {"names": []})
            assert self.ended.wait(30), "the broadcast waits for ever"
            receiving.result()

    def shutdown(self):
        self.ended.set()


def send_to(ray, sampler):
    """Send weights to a sampler of a class, over a broadcast that waits for it."""
    actor = ray.remote(sampler).options(num_cpus=0).remote()
    client = SamplersClient([actor], tensor_parallel=1)
    Sender(client, RankWeights(None), BlockedEngine(client)).send(1)


def test_a_broadcast_ends_with_the_error_of_an_engine_that_cannot_receive_it(ray):
    class FullSampler:
        def receive(self, hand_over, described):
            raise EngineError("vLLM cannot load new weights: out of memory")

    with pytest.raises(EngineError, match="out of memory"):
        send_to(ray, FullSampler)


def test_a_broadcast_ends_if_a_sampler_dies_while_it_receives(ray):
    class DyingSampler:
        def receive(self, hand_over, described):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkersLostError, match="a process of the run died"):
        send_to(ray, DyingSampler)


class RecordedTransfer:
    """A source of weights and an engine that keep the order of their calls."""

    bytes = 12

    def __init__(self):
        self.calls = []

    def wait(self):
        self.calls.append("wait for the device")

    def send_weights(self):
        self.calls.append("send")

    def shutdown(self):
        self.calls.append("shut down")


def test_weights_are_sent_when_the_device_has_computed_them():
    transfer = RecordedTransfer()
    sender = Sender(SamplersClient([], tensor_parallel=1), transfer, transfer)
    assert sender.send(1) == 12
    assert transfer.calls == ["wait for the device", "send"]
