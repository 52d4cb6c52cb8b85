"""How many worker processes a run has on this machine, and on which device."""

from __future__ import annotations

import torch

from agentrl_components.errors import ModelError
from agentrl_components.spec import Compute
from agentrl_components.workers.fork_server import fork_context, fork_server_context
from agentrl_components.workers.pool import InProcessPool, PendingWorkers, ProcessPool, WorkerPool
from agentrl_components.workers.worker import Setup, Worker


def open_pool(lead: Worker, setup: Setup, pending: PendingWorkers | None) -> WorkerPool:
    """A pool with as many workers as the manifest asks for."""
    size = worker_count(setup.spec.compute)
    if size == 1:
        return InProcessPool(lead)
    return ProcessPool(lead, setup, pending or PendingWorkers(size, fork_server_context()))


def start_workers_early(compute: Compute) -> PendingWorkers | None:
    """Start worker processes before the model is there, as forks of this process. None: one worker
    suffices, this process has other threads already, or the workers are Ray actors."""
    if compute.ray is not None:
        return None
    size = worker_count(compute)
    context = fork_context() if size > 1 else None
    return PendingWorkers(size, context) if context is not None else None


def worker_count(compute: Compute) -> int:
    """How many workers there are: on a GPU one, in this process."""
    if device(compute) != "cpu":
        return 1
    return compute.processes


def device(compute: Compute) -> str:
    """`cpu` or `cuda`.

    Raises:
        ModelError: the manifest asks for `cuda`, and torch finds no usable GPU.
    """
    if compute.device == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if compute.device == "cuda":
        raise ModelError(
            "spec.compute.device: is cuda, but torch finds no NVIDIA GPU with a working driver; "
            "set cpu or auto, or check nvidia-smi"
        )
    return "cpu"
