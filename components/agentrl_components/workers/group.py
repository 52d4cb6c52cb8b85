"""A model at work in its worlds: what training and a lone evaluation both need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from agentrl_components.model.sources import fetch_model
from agentrl_components.rollout.collector import Players
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.tasks import Drawn, TaskSource
from agentrl_components.spec import Compute, RunSpec
from agentrl_components.workers import fork_server
from agentrl_components.workers.loop_thread import Home
from agentrl_components.workers.pool import Hands, InProcess, Pool, Processes, keep_memory
from agentrl_components.workers.worker import Setup, Worker
from agentrl_envs.env import Split
from agentrl_envs.world import World


class Crew:
    """The workers of a run, their model and their tasks, kept warm until `close`."""

    def __init__(self, spec: RunSpec, scratch: Path, hands: Hands | None = None) -> None:
        """`scratch` is a folder for a model that is made or fetched; `hands` are processes for its
        workers, made here where they are wanted and none are given. Raises what opening a world or
        a model raises, and leaves nothing open then but the hands it was given."""
        keep_memory()
        self.home = Home()
        with ExitStack() as opened:
            opened.callback(self.home.close)
            self.worlds: dict[str, World] = self.home.run(open_worlds(spec.environments))
            for world in self.worlds.values():
                opened.callback(partial(self._leave, world))
            words = vocabulary(self.worlds)
            self.folder = fetch_model(spec.model, words, spec.seed, scratch / "model")
            setup = Setup(spec=spec, folder=self.folder, device=device(spec.compute))
            self.lead = Worker(setup)
            self._opened = opened.pop_all()
        self.pool: Pool = open_pool(self.lead, setup, hands)
        self.instructions = {name: w.instructions() for name, w in self.worlds.items()}
        self.players = Players(spec, self.pool, self.instructions)
        self.source = TaskSource(spec.environments, self.worlds)

    def draw(self, split: Split, count: int, batch: int = 0) -> Sequence[Drawn]:
        """Tasks, as `TaskSource.draw` deals them."""
        return self.home.run(self.source.draw(split, count, batch))

    def _leave(self, world: World) -> None:
        self.home.run(world.close())

    def close(self) -> None:
        """Close workers and worlds."""
        self.pool.close()
        self._opened.close()


def open_pool(lead: Worker, setup: Setup, hands: Hands | None) -> Pool:
    """As many workers as the manifest asks for."""
    size = processes(setup.spec.compute)
    if size == 1:
        return InProcess(lead)
    return Processes(lead, setup, hands or Hands(size, fork_server.server()))


def early_hands(compute: Compute) -> Hands | None:
    """Processes for workers, before there is a model: forks of this process, if it has no other
    threads yet. None: there is no use for them, or no way to have them now."""
    size = processes(compute)
    context = fork_server.own() if size > 1 else None
    return Hands(size, context) if context is not None else None


def processes(compute: Compute) -> int:
    """How many workers there are; on a GPU one, in this process."""
    if device(compute) != "cpu":
        return 1
    return compute.workers or min(2, os.cpu_count() or 1)


def vocabulary(worlds: dict[str, World]) -> list[str]:
    """Every word of every world; empty when one has no closed vocabulary."""
    words = [world.vocabulary() for world in worlds.values()]
    return sorted({word for some in words for word in some or ()})


def device(compute: Compute) -> str:
    """cpu or cuda."""
    if compute.device != "auto":
        return compute.device
    return "cuda" if torch.cuda.is_available() else "cpu"
