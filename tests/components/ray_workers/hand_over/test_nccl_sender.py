"""The trainers' side of a hand-over over NCCL, with samplers that stand for those with GPUs."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import pytest
import torch

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError, WorkersLostError
from agentrl_components.ray_workers.hand_over.nccl_client import SamplersClient
from agentrl_components.ray_workers.hand_over.nccl_sender import Sender, form_group
from agentrl_components.ray_workers.hand_over.rank_weights import RankWeights

pytest.importorskip("ray")


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
    assert len(client.join("10.0.0.7:1234")) == 2
    group = {
        "master_address": "10.0.0.7",
        "master_port": 1234,
        "world_size": 5,
        "packed": True,
        "packed_buffer_size_bytes": 64 << 20,
        "packed_num_buffers": 2,
    }
    assert [one.calls for one in samplers] == [
        [("join_nccl", {**group, "rank_offset": 1})],
        [("join_nccl", {**group, "rank_offset": 3})],
    ]


def test_all_calls_of_a_hand_over_have_its_name_which_no_other_has(ray):
    sampler = RecordingSampler()
    client = SamplersClient([sampler], tensor_parallel=1)
    for client.version, client.since in ((3, None), (4, 3)):
        client.start_weight_update()
        client.update_weights({"names": ["a"]})
        client.finish_weight_update()
    first, second = sampler.calls[0][1], sampler.calls[3][1]
    assert first != second
    assert sampler.calls == [
        ("start_update", first, None),
        ("receive", first, {"names": ["a"]}),
        ("finish_update", first, 3),
        ("start_update", second, 3),
        ("receive", second, {"names": ["a"]}),
        ("finish_update", second, 4),
    ]


class BlockedEngine:
    """Calls its client as vLLM's engine of a trainer does, and broadcasts until it is shut down, as
    NCCL does if a process of the group does not take part. Then the broadcast may fail."""

    def __init__(self, client, broadcast_fails):
        self.client, self.broadcast_fails = client, broadcast_fails
        self.ended = Event()

    def send_weights(self):
        with ThreadPoolExecutor(max_workers=1) as thread:
            receiving = thread.submit(self.client.update_weights, {"names": []})
            assert self.ended.wait(30), "the broadcast waits for ever"
            if self.broadcast_fails:
                raise RuntimeError("NCCL error: remote process exited")
            receiving.result()

    def shutdown(self):
        self.ended.set()


def send_to(ray, sampler, broadcast_fails):
    """Send weights to a sampler of a class, over a broadcast that waits for it."""
    actor = ray.remote(sampler).options(num_cpus=0).remote()
    client = SamplersClient([actor], tensor_parallel=1)
    Sender(client, RankWeights(None), BlockedEngine(client, broadcast_fails)).send(1)


BROADCAST_FAILS = pytest.mark.parametrize("broadcast_fails", [False, True])


@BROADCAST_FAILS
def test_a_broadcast_ends_with_the_error_of_an_engine_that_cannot_receive_it(ray, broadcast_fails):
    class FullSampler:
        def receive(self, hand_over, described):
            raise EngineError("vLLM cannot load new weights: out of memory")

    with pytest.raises(EngineError, match="out of memory"):
        send_to(ray, FullSampler, broadcast_fails)


@BROADCAST_FAILS
def test_a_broadcast_ends_if_a_sampler_dies_while_it_receives(ray, broadcast_fails):
    class DyingSampler:
        def receive(self, hand_over, described):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkersLostError, match="a process of the run died"):
        send_to(ray, DyingSampler, broadcast_fails)


class ChangedRank:
    """Has three changes, of 3, 6 and 9 bytes of entries, and keeps the order of its calls."""

    def __init__(self):
        self.calls, self.changes = [], self

    def wait_for_device(self):
        self.calls.append("wait for the device")

    def rest(self):
        self.calls.append("rest")

    def gathered(self, limit):
        assert limit == 64 << 20
        part = []
        for count in (1, 2, 3):
            self.calls.append(f"gather {count}")
            change = WeightChange(
                name=str(count),
                shape=(9,),
                indices=torch.arange(count, dtype=torch.int32),
                values=torch.ones(count, dtype=torch.bfloat16),
            )
            part.append(change)
        yield part


class ChangesEngine:
    """Keeps the names of the changes that it was given to send."""

    def send_changes(self, parts):
        self.sent = [[change.name for change in part] for part in parts]

    def shutdown(self):
        raise AssertionError("it is in use")


def test_changes_are_sent_with_their_versions_and_their_bytes_are_counted():
    client, engine, rank = SamplersClient([], tensor_parallel=1), ChangesEngine(), ChangedRank()
    assert Sender(client, RankWeights(rank), engine).send(7, since=5) == 6 * (4 + 2)
    assert (client.version, client.since) == (7, 5)
    assert engine.sent == [["1", "2", "3"]]
    wait = "wait for the device"
    assert rank.calls == ["gather 1", "gather 2", "gather 3", wait, wait, "rest"]


class RecordedRank:
    """Gathers two weights, and keeps the order of its calls."""

    def __init__(self):
        self.calls = []

    def wait_for_device(self):
        self.calls.append("wait for the device")

    def rest(self):
        self.calls.append("rest")

    def meta_weights(self):
        return {}

    def full_weights(self):
        for name in ("a", "b"):
            self.calls.append(f"gather {name}")
            yield name, None


def test_no_weight_is_gathered_while_another_one_is_broadcast():
    rank = RecordedRank()
    for name, _ in RankWeights(rank):
        rank.calls.append(f"broadcast {name}")
    wait = "wait for the device"
    assert rank.calls == [
        wait,
        "gather a",
        wait,
        "broadcast a",
        wait,
        "gather b",
        wait,
        "broadcast b",
        wait,
    ]


class GatheringEngine:
    """Gathers all weights, as every rank does."""

    def __init__(self, source):
        self.source = source

    def send_weights(self):
        for _ in self.source:
            pass

    def shutdown(self):
        raise AssertionError("it is in use")


def test_a_rank_gives_back_the_memory_of_buffers_that_training_cannot_use():
    rank = RecordedRank()
    source = RankWeights(rank)
    Sender(SamplersClient([], tensor_parallel=1), source, GatheringEngine(source)).send(1)
    assert rank.calls.count("rest") == 1
    assert rank.calls[-1] == "rest"


def test_an_engine_that_cannot_join_the_process_group_ends_the_wait_for_it(ray):
    class WaitingRank:
        """Waits in NCCL for engines that never join."""

        def reserve_nccl_address(self):
            return "127.0.0.1:1"

        def open_nccl(self, address, client):
            time.sleep(60)

    class FullSampler:
        def join_nccl(self, group):
            raise WorkersLostError(f"rank {group['rank_offset']}: out of memory")

    rank = ray.remote(WaitingRank).options(num_cpus=0).remote()
    sampler = ray.remote(FullSampler).options(num_cpus=0).remote()
    with pytest.raises(WorkersLostError, match="rank 1: out of memory"):
        form_group([rank], [sampler], tensor_parallel=1)
    ray.kill(rank)
