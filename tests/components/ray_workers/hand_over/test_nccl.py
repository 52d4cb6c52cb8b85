"""Which samplers take part in a hand-over from GPU to GPU."""

import time

import pytest

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import outcomes
from agentrl_components.ray_workers.hand_over.nccl import NcclTransfer

pytest.importorskip("ray")


class RecordingSource:
    """Stands for trainers on GPUs: keeps who is in the process group at each hand-over."""

    def __init__(self):
        self.groups, self.sent = [], []

    def open_nccl(self, samplers, tensor_parallel):
        self.groups.append((list(samplers), tensor_parallel))

    def send_nccl(self, version, since):
        members, _ = self.groups[-1]
        self.sent.append((version, since, len(members)))
        return 12

    def buckets(self, *, adapters):
        raise AssertionError("no sampler is replaced here")


def kill(ray, actor):
    """Kill an actor, and wait until Ray knows."""
    ray.kill(actor)
    deadline = time.monotonic() + 20
    while not isinstance(outcomes([actor.__ray_ready__.remote()])[0], WorkersLostError):
        assert time.monotonic() < deadline, "it still answers"


def test_samplers_that_died_before_a_hand_over_are_left_out_and_the_others_get_the_weights(ray):
    class Idle:
        pass

    first, second = (ray.remote(Idle).options(num_cpus=0).remote() for _ in range(2))
    source = RecordingSource()
    transfer = NcclTransfer(source, tensor_parallel=2)
    assert transfer.send([first, second], 1).lost == {}
    assert transfer.send_changes([first, second], 2, 1).lost == {}
    assert source.groups == [([first, second], 2)]
    kill(ray, first)
    done = transfer.send([first, second], 3)
    assert {place: type(death) for place, death in done.lost.items()} == {0: WorkersLostError}
    assert source.groups[1:] == [([second], 2)]
    assert source.sent == [(1, None, 2), (2, 1, 2), (3, None, 1)]
    kill(ray, second)
    done = transfer.send([first, second], 4)
    assert sorted(done.lost) == [0, 1]
    assert len(source.sent) == 3
