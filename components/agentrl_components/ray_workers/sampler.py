"""A sampler on Ray: an engine and the environments, with weights that are handed over to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.model.load import open_decoder, read_weights
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.rollout.collector import replay_lost
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.sharded.bucket import Bucket
from agentrl_components.sharded.model import DTYPES
from agentrl_components.spec import RunSpec, Samplers
from agentrl_components.streaming.samplers import SamplerLoad
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.loop_thread import LoopThread
from agentrl_components.workers.player import Player
from agentrl_components.workers.pool import keep_freed_memory

T = TypeVar("T")


class Sampler:
    """Plays episodes, several calls at the same time: an asynchronous actor, whose episodes are on
    the event loop of another thread. Merged adapters are part of the weights, which are then
    float32."""

    def __init__(self, spec: RunSpec, model: ModelFolder, device: str) -> None:
        keep_freed_memory()
        self._loop = LoopThread()
        if device == "cpu":
            torch.set_num_threads(1)  # as in `workers.worker`
            self._loop.run(_one_thread())
        folder = model.open(spec)
        samplers = spec.compute.samplers or Samplers()
        dtype = "float32" if spec.model.lora is not None else spec.model.dtype
        options = VllmOptions(
            device="cuda" if device == "cuda" else "cpu",
            dtype=dtype,
            context=spec.model.context,
            replies=samplers.max_batch,
            memory_share=samplers.memory_share,
            tensor_parallel=samplers.tensor_parallel,
        )
        decoder = None
        if spec.rollout.engine == "torch":
            decoder = open_decoder(
                folder, DTYPES[dtype], torch.device(device), spec.model.implementation
            )
        self._spec, self._folder = spec, folder
        self._player = Player(spec, folder, options, decoder, self._loop)
        self._weights: dict[str, Tensor] = {}
        """Weights that were handed over and that the engine has not loaded yet."""
        self._version = -1
        """The version in use; -1: that of the model folder."""
        self._newer = asyncio.Event()
        """Set when another version is in use."""
        self._calls = 0
        """Calls that play episodes now."""
        self._busy_s = 0.0
        self._counted_from = self._asked = time.monotonic()
        self._tokens = (0, 0)

    def load(self, bucket: Bucket) -> int:
        """Take some of the weights of the next version. Returns their bytes."""
        self._weights.update(bucket.tensors())
        return bucket.content.nbytes

    async def use(self, version: int) -> None:
        """Sample with the weights that were taken, from now on. They are those of `version`."""
        interrupt = self._spec.rollout.interrupt
        # Requests that come after this line wait in the engine for the new weights.
        loading = self._loop.submit(self._player.load(version, self._take_weights, interrupt))
        self._version = version
        self._newer.set()
        self._newer = asyncio.Event()
        await asyncio.wrap_future(loading)

    async def play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, as `Samplers.play` has them."""
        return await self._playing(self._player.episodes(jobs, rules, version, self._take_weights))

    async def play_group(self, jobs: Sequence[Job], rules: Rules, oldest: int) -> list[Trajectory]:
        """The trajectories of `jobs`, played by the version that is in use at each token, from
        version `oldest` on: Ray may begin this call before an earlier call of `use`. Lost episodes
        are played again, as the collector does."""
        while self._version < oldest:
            await self._newer.wait()
        return await self._playing(
            replay_lost(jobs, lambda some: self._player.more_episodes(some, rules))
        )

    async def take_load(self) -> SamplerLoad:
        """What this sampler did since the last call."""
        now = time.monotonic()
        self._count(now)
        before, self._tokens = self._tokens, self._player.tokens()
        load = SamplerLoad(
            seconds=now - self._asked,
            busy_s=self._busy_s,
            prompt_tokens=self._tokens[0] - before[0],
            cached_tokens=self._tokens[1] - before[1],
        )
        self._asked, self._busy_s = now, 0.0
        return load

    async def _playing(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the player's loop, and count the time as busy."""
        self._count(time.monotonic())
        self._calls += 1
        try:
            return await self._on_loop(coroutine)
        finally:
            self._count(time.monotonic())
            self._calls -= 1

    def _count(self, now: float) -> None:
        if self._calls:
            self._busy_s += now - self._counted_from
        self._counted_from = now

    async def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._loop.submit(coroutine))

    def _take_weights(self) -> dict[str, Tensor]:
        """The weights that were handed over, or those of the model folder if none were. They are
        not kept: the engine has a copy from now on."""
        taken, self._weights = self._weights, {}
        return taken or read_weights(self._folder)


async def _one_thread() -> None:
    torch.set_num_threads(1)
