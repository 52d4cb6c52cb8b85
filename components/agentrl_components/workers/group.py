"""The workers of a run with their model, environments and tasks. Training and a separate evaluation
both use it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from agentrl_components.errors import ModelError
from agentrl_components.model.sources import fetch_model
from agentrl_components.rollout.collector import Collector
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.tasks import DrawnTask, TaskSource
from agentrl_components.spec import Compute, RunSpec
from agentrl_components.workers.fork_server import fork_context, fork_server_context
from agentrl_components.workers.loop_thread import LoopThread
from agentrl_components.workers.pool import (
    InProcessPool,
    PendingWorkers,
    ProcessPool,
    WorkerPool,
    keep_freed_memory,
)
from agentrl_components.workers.samplers import PoolSamplers
from agentrl_components.workers.worker import Setup, Worker
from agentrl_envs.env import Split
from agentrl_envs.world import World


class WorkerGroup:
    """Keeps workers, model and environments open until `close`."""

    def __init__(self, spec: RunSpec, scratch: Path, pending: PendingWorkers | None = None) -> None:
        """`scratch` is a folder for a model that is created or downloaded. `pending` are worker
        processes that were started early; without them they are started here if needed. Raises
        what opening an environment or a model raises, and then closes everything but `pending`."""
        keep_freed_memory()
        self.loop = LoopThread()
        with ExitStack() as opened:
            opened.callback(self.loop.close)
            self.worlds: dict[str, World] = self.loop.run(open_worlds(spec.environments))
            for world in self.worlds.values():
                opened.callback(partial(self._close_world, world))
            words = vocabulary(self.worlds)
            self.folder = fetch_model(spec.model, words, spec.seed, scratch / "model")
            setup = Setup(spec=spec, folder=self.folder, device=device(spec.compute))
            self.lead = Worker(setup)
            self._opened = opened.pop_all()
        self.pool: WorkerPool = open_pool(self.lead, setup, pending)
        self.instructions = {name: w.instructions() for name, w in self.worlds.items()}
        self.collector = Collector(spec, PoolSamplers(self.pool), self.instructions)
        self.source = TaskSource(spec.environments, self.worlds)

    def draw(self, split: Split, count: int, batch: int = 0) -> Sequence[DrawnTask]:
        """Tasks, as `TaskSource.draw` returns them."""
        return self.loop.run(self.source.draw(split, count, batch))

    @property
    def down(self) -> set[str]:
        """Environments that do not answer, by name."""
        return self.source.down

    def probe(self) -> list[str]:
        """The environments that were down and answer again."""
        return self.loop.run(self.source.probe()) if self.down else []

    def _close_world(self, world: World) -> None:
        self.loop.run(world.close())

    def close(self) -> None:
        """Close workers and environments."""
        self.pool.close()
        self._opened.close()


def open_pool(lead: Worker, setup: Setup, pending: PendingWorkers | None) -> WorkerPool:
    """A pool with as many workers as the manifest asks for."""
    size = worker_count(setup.spec.compute)
    if size == 1:
        return InProcessPool(lead)
    return ProcessPool(lead, setup, pending or PendingWorkers(size, fork_server_context()))


def start_workers_early(compute: Compute) -> PendingWorkers | None:
    """Start worker processes before the model is there, as forks of this process. None: one worker
    suffices, or this process has other threads already."""
    size = worker_count(compute)
    context = fork_context() if size > 1 else None
    return PendingWorkers(size, context) if context is not None else None


def worker_count(compute: Compute) -> int:
    """How many workers there are: on a GPU one, in this process."""
    if device(compute) != "cpu":
        return 1
    return compute.workers or min(2, os.cpu_count() or 1)


def vocabulary(worlds: dict[str, World]) -> list[str]:
    """All words of all environments, sorted; empty if one of them has no closed vocabulary."""
    words = [world.vocabulary() for world in worlds.values()]
    return sorted({word for some in words for word in some or ()})


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
