"""vLLM's engines for changes on both ends of a process group, with a queue in the place of NCCL."""

from contextlib import nullcontext
from queue import Queue
from types import SimpleNamespace

import pytest
import torch
from needs_vllm import NEEDS_VLLM

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.ray_workers.hand_over.nccl_sender import VllmTransferEngine

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
