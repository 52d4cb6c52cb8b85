"""vLLM's engines for changes on both ends of a process group, with a queue in the place of NCCL."""

import gc
import socket
from contextlib import nullcontext
from queue import Queue
from threading import Event
from types import SimpleNamespace

import pytest
import torch
from needs_vllm import NEEDS_VLLM

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError, WorkersLostError
from agentrl_components.ray_workers.hand_over.nccl_client import SamplersClient
from agentrl_components.ray_workers.hand_over.nccl_sender import (
    Sender,
    VllmTransferEngine,
    open_sender,
)

pytestmark = NEEDS_VLLM


class Wire:
    """Stands for NCCL between the sender and a worker, in one process."""

    def __init__(self):
        self.device, self.sent = torch.device("cpu"), Queue()

    def broadcast(self, tensor, src, stream):
        assert src == 0
        self.sent.put(tensor.clone())

    def destroy(self):
        raise AssertionError("it is in use")


class WorkersEnd(Wire):
    """The worker's end of a wire."""

    def __init__(self, wire):
        self.device, self.sent = wire.device, wire.sent

    def broadcast(self, tensor, src, stream):
        tensor.copy_(self.sent.get(timeout=20))


class Model(torch.nn.Module):
    """Loads weights as vLLM's models do: parts of a packed layer by their own names."""

    def __init__(self):
        super().__init__()
        self.packed = torch.nn.Parameter(torch.arange(6.0, dtype=torch.bfloat16).view(3, 2))

    def load_weights(self, weights):
        for name, weight in weights:
            rows = {"first": slice(0, 1), "second": slice(1, 3)}[name]
            self.packed.data[rows].copy_(weight)


class Worker:
    """Stands for the samplers' client: one worker of vLLM's, whose end of the wire is here."""

    def __init__(self, wire):
        from agentrl_components.engines.vllm_engine.weight_backend import WeightBackend

        self.model, self.calls = Model(), []
        settings = SimpleNamespace(parallel_config=None, model_config=None)
        self.backend = WeightBackend(None, settings, torch.device("cpu"), self.model)
        self.backend.model_update_group = WorkersEnd(wire)

    def start_weight_update(self):
        self.calls.append("start")
        self.backend.start_weight_update()

    def update_weights(self, update_info):
        self.calls.append(update_info["num_updates_list"])
        self.backend.update_weights(update_info)

    def finish_weight_update(self):
        self.calls.append("finish")
        self.backend.finish_weight_update()


def changed(name, rows, indices, values):
    return WeightChange(
        name=name,
        shape=(rows, 2),
        indices=torch.tensor(indices, dtype=torch.int32),
        values=torch.tensor(values, dtype=torch.bfloat16),
    )


@pytest.fixture
def without_cuda(monkeypatch):
    """vLLM's sparse engines ask for a stream of CUDA, and wait for it."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: None)
    monkeypatch.setattr(torch.accelerator, "device_index", lambda index: nullcontext())
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)


def test_changes_arrive_in_the_layers_of_a_worker_part_by_part(without_cuda):
    wire = Wire()
    worker = Worker(wire)
    whole = SimpleNamespace(is_sender=True, model_update_group=wire)
    engine = VllmTransferEngine(whole, worker)
    parts = [
        [changed("first", 1, [1], [9.0]), changed("second", 2, [0, 3], [7.0, -1.0])],
        [changed("second", 2, [2], [0.5])],
    ]
    engine.send_changes(parts)
    assert worker.calls == ["start", [1, 2], [1], "finish"]
    assert worker.model.packed.tolist() == [[0.0, 9.0], [7.0, 3.0], [0.5, -1.0]]
    assert wire.sent.empty()


def test_other_ranks_than_the_first_gather_changes_and_send_nothing(without_cuda):
    gathered = []

    def parts():
        gathered.append("all")
        yield from ()

    whole = SimpleNamespace(is_sender=False, model_update_group=None)
    VllmTransferEngine(whole, None).send_changes(parts())
    assert gathered == ["all"]


class EndedBroadcast:
    """Stands for a process group, for the engine that formed it and for a sampler. The sampler
    fails while the first array is broadcast; the broadcast returns when the group is destroyed."""

    is_sender, device = True, torch.device("cpu")

    def __init__(self):
        self.model_update_group = self.start_update = self.receive = self
        self.begun, self.ended = Event(), Event()

    def broadcast(self, tensor, src, stream):
        self.begun.set()
        assert self.ended.wait(30), "the broadcast waits for ever"

    def shutdown(self):
        self.ended.set()

    def remote(self, hand_over, described):
        import ray

        if isinstance(described, dict):
            assert self.begun.wait(30), "nothing is broadcast"
            raise EngineError("vLLM cannot load new weights: out of memory")
        return ray.put(None)


def test_changes_that_an_engine_does_not_receive_end_with_its_error(without_cuda, ray):
    group = EndedBroadcast()
    client = SamplersClient([group], tensor_parallel=1)
    source = SimpleNamespace(changes=lambda: [[changed("first", 1, [1], [9.0])]])
    sender = Sender(client, source, VllmTransferEngine(group, client))
    with pytest.raises(EngineError, match="out of memory"):
        sender.send(2, since=1)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_port_that_was_taken_meanwhile_is_a_lost_group(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    client = SamplersClient([object()], tensor_parallel=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(WorkersLostError, match="already in use"):
            open_sender(None, 0, address, client)
    gc.collect()  # vLLM does not close the socket that it could not bind
