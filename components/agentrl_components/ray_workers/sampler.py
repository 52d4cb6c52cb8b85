"""A sampler on Ray: an engine and the environments, with weights that are handed over to it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from agentrl_components.engines.vllm_engine.adapters import write_adapters
from agentrl_components.errors import WorkersLostError
from agentrl_components.model.load import open_decoder
from agentrl_components.ray_workers.calls.busy_time import BusyTime
from agentrl_components.ray_workers.calls.notes import NoteHandler
from agentrl_components.ray_workers.calls.silence import Progress
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.nodes.installed_code import check_code
from agentrl_components.ray_workers.resources import SharedGpu, use_assigned_gpus
from agentrl_components.rollout.collector import replay_lost
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.sharded.adapters import AdapterMerge
from agentrl_components.sharded.hand_over.bucket import Bucket, ChangeBucket
from agentrl_components.sharded.hand_over.shared_memory import SharedBucket, wait_for
from agentrl_components.sharded.model import DTYPES
from agentrl_components.spec import RunSpec
from agentrl_components.spec.fields.model import Lora
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.streaming.samplers import SamplerLoad
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.loop_thread import LoopThread
from agentrl_components.workers.memory import set_up_memory
from agentrl_components.workers.player import Player, sampler_options
from agentrl_envs.errors import SessionError

T = TypeVar("T")


class Sampler:
    """Plays episodes, several calls at the same time: an asynchronous actor, whose episodes are on
    the event loop of another thread.

    With LoRA and `trains`, adapters alone are handed over. The torch engine has them merged into
    its weights, which are then float32; vLLM keeps its weights and adds the adapters' output."""

    def __init__(
        self,
        spec: RunSpec,
        model: ModelFolder,
        device: str,
        *,
        trains: bool,
        shared_gpu: SharedGpu | None = None,
    ) -> None:
        """`trains`: weights are handed over. Otherwise the engine has those of the model folder.
        `shared_gpu`: the GPU of a trainer that the engine uses, too."""
        use_assigned_gpus()
        if shared_gpu is not None and shared_gpu.number:
            os.environ["CUDA_VISIBLE_DEVICES"] = shared_gpu.number
        self._shared_gpu, self._device = shared_gpu, torch.device(device)
        set_up_memory()
        self._loop = LoopThread()
        if device == "cpu":
            torch.set_num_threads(1)  # as in `workers.worker`
            self._loop.run(_one_thread())
        self._spec, self._model, self._trains = spec, model, trains
        self._opened: Player | None = None
        self._merge: AdapterMerge | None = None
        self._vllm_lora = spec.model.lora if trains and spec.rollout.engine == "vllm" else None
        self._adapters: dict[str, Tensor] = {}
        """Adapters for vLLM, which takes all of them at once."""
        self._version = -1
        """The version in use; -1: that of the model folder."""
        self._plays: set[asyncio.Task[Any]] = set()
        """Calls that play episodes."""
        self._bringing = asyncio.Lock()
        """Of the call that brings weights: one at a time, in the order in which they came."""
        self._hand_over: str | None = None
        """The hand-over under way."""
        self._notes = NoteHandler()
        logging.getLogger("agentrl_envs").addHandler(self._notes)
        self._busy = BusyTime()
        """Time in which episodes are played."""
        self._tokens = (0, 0)

    async def open(self, code: str) -> None:
        """Open the model folder and the environments, and start the engine. Comes before all other
        calls. It is not part of the constructor, whose errors Ray reports as the death of the
        actor.

        Raises:
            ModelError, EngineError: the engine cannot run the model.
            SpecError: an environment refuses its options, or `code`, which the driver runs, is not
                installed on this machine.
            WorkersLostError: an environment does not answer.
        """
        check_code(code)
        if self._opened is None:
            try:
                self._opened = self._open_player(self._model.open(self._spec))
            except SessionError as error:
                raise WorkersLostError(f"a sampler cannot open an environment: {error}") from error
        await self._on_loop(self._player.open_engine())

    async def take_over(self) -> None:
        """Serve another driver, whose weights come with its first hand-over: end the episodes of
        the last one, and a hand-over that it left unfinished. Raises what `Player.drop_update`
        raises, and does not return if a weight never arrives over NCCL."""
        if self._opened is None:
            return
        self._version = -1  # calls of the last driver that arrive from now on are refused
        for play in self._plays:
            play.cancel()
        await asyncio.gather(*self._plays, return_exceptions=True)
        async with self._bringing:  # calls that bring weights cannot be cancelled halfway
            await self._drop_hand_over()
            self._version = -1  # a hand-over may have ended meanwhile
        await self.take_load()

    async def rest(self) -> None:
        """Close the sessions that are open."""
        await self._on_loop(self._player.close_sessions())

    async def sleep(self) -> None:
        """Give the memory of the GPU to the trainer that uses it, too, until the next hand-over."""
        await self._on_loop(self._player.sleep())
        self._version = -1

    async def rank(self) -> int:
        """The trainer that uses the same GPU."""
        assert self._shared_gpu is not None
        return self._shared_gpu.rank

    async def start_update(self, hand_over: str, since: int | None = None) -> None:
        """Begin to take the weights of the next version, or what changed of them `since` a version.
        Replies under way are treated as `rollout.interrupt` says; later ones wait for
        `finish_update`. Raises `WorkersLostError` if this sampler has another version.

        `hand_over` is a name that no other hand-over has. From now on calls of others are refused:
        a driver that has died may have left some on the way."""
        async with self._bringing:
            await self._drop_hand_over()
            if since not in (None, self._version):
                raise self._missed(since)
            self._hand_over = hand_over
            if self._vllm_lora is None:
                partial = since is not None or self._merge is not None
                await self._on_loop(self._player.start_update(partial=partial))

    async def load(self, hand_over: str, bucket: Bucket | SharedBucket) -> int:
        """Take some of the weights, or of the adapters. Returns their bytes."""
        async with self._call_of(hand_over):
            if self._vllm_lora is not None:
                self._adapters |= dict(bucket.tensors())
            else:
                weights = bucket.tensors()
                if self._merge is not None:
                    weights = self._merge.merged(weights)
                await self._on_loop(self._player.update(weights))
                if isinstance(bucket, SharedBucket):
                    wait_for(self._device)  # copies are freed, and the trainer fills it again
        return bucket.bytes

    async def change(self, hand_over: str, bucket: ChangeBucket) -> int:
        """Take some of the changes. Returns their bytes."""
        async with self._call_of(hand_over):
            await self._on_loop(self._player.change(list(bucket.changes())))
        return bucket.bytes

    async def finish_update(self, hand_over: str, version: int) -> None:
        """Sample with the weights that were taken, from now on. They are those of `version`."""
        async with self._call_of(hand_over):
            self._hand_over = None
            if self._vllm_lora is None:
                await self._on_loop(self._player.finish_update(version))
            else:
                adapters, self._adapters = self._adapters, {}
                await self._use_adapters(self._vllm_lora, adapters, version)
            self._version = version

    async def join_nccl(self, group: Mapping[str, Any]) -> None:
        """Join the process group of a hand-over from GPU to GPU. Raises what `VllmEngine.join_nccl`
        raises, and does not return if another member never joins."""
        async with self._bringing:
            await self._on_loop(self._player.vllm.join_nccl(group))

    async def receive(self, hand_over: str, described: Mapping[str, Any]) -> None:
        """Take the weights that are `described`, as `VllmEngine.receive_update` does."""
        async with self._call_of(hand_over):
            await self._on_loop(self._player.vllm.receive_update(described))

    async def play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, as `Samplers.play` has them. If weights are handed over, the
        engine has those of `version`. Raises `WorkersLostError` if it has others, or vLLM has died;
        then this sampler is of no use."""
        with self._listed():
            if 0 <= version == self._version:
                return await self._play(self._player.more_episodes(jobs, rules))
            if version >= 0:
                if self._trains:
                    raise self._missed(version)
                self._version = version  # the folder's weights have it
            return await self._play(self._player.episodes(jobs, rules, version, None))

    async def play_group(self, jobs: Sequence[Job], rules: Rules, oldest: int) -> list[Trajectory]:
        """The trajectories of `jobs`, played by the version that is in use at each token. Lost
        episodes are played again, as the collector does. Raises `WorkersLostError` if that version
        is older than `oldest`, or vLLM has died; then this sampler is of no use."""
        with self._listed():
            if self._version < oldest:
                raise self._missed(oldest)
            return await self._play(
                replay_lost(jobs, lambda some: self._player.more_episodes(some, rules))
            )

    async def take_load(self) -> SamplerLoad:
        """What this sampler did since the last call."""
        before, self._tokens = self._tokens, self._player.tokens()
        seconds, busy_s = self._busy.take()
        return SamplerLoad(
            seconds=seconds,
            busy_s=busy_s,
            prompt_tokens=self._tokens[0] - before[0],
            cached_tokens=self._tokens[1] - before[1],
        )

    async def progress(self) -> Progress:
        """The number of replies so far, and the warnings of environments since the last call, such
        as that one hangs. Answered also while the player's loop is busy."""
        replies = self._player.replies if self._opened is not None else 0
        return Progress(replies, self._notes.take())

    async def close(self) -> None:
        """Close sessions, environments and the engine."""
        if self._opened is not None:
            await asyncio.to_thread(self._opened.close)

    @property
    def _player(self) -> Player:
        assert self._opened is not None
        return self._opened

    def _open_player(self, folder: Path) -> Player:
        spec, decoder = self._spec, None
        if spec.rollout.engine == "torch":
            dtype = "float32" if spec.model.lora is not None else spec.model.dtype
            decoder = open_decoder(folder, DTYPES[dtype], self._device, spec.model.implementation)
            decoder.shape.check_context(spec.model.context)
            if self._trains and spec.model.lora is not None:
                self._merge = AdapterMerge(folder, spec, decoder)
        shares = self._shared_gpu is not None
        options = sampler_options(spec, self._device.type, self._trains, shares=shares)
        return Player(spec, folder, options, decoder, self._loop)

    async def _drop_hand_over(self) -> None:
        """End a hand-over that is unfinished, if there is one."""
        await self._on_loop(self._player.drop_update())
        self._hand_over, self._adapters = None, {}

    @asynccontextmanager
    async def _call_of(self, hand_over: str) -> AsyncIterator[None]:
        """A call that brings weights. Raises `WorkersLostError` unless it is of the hand-over under
        way."""
        async with self._bringing:
            if hand_over != self._hand_over:
                raise WorkersLostError("the hand-over of these weights was given up")
            yield

    @contextmanager
    def _listed(self) -> Iterator[None]:
        """A call that plays episodes."""
        call = asyncio.current_task()
        assert call is not None
        self._plays.add(call)
        try:
            yield
        finally:
            self._plays.discard(call)

    def _missed(self, version: int) -> WorkersLostError:
        """The error of calls for weights that this sampler never got."""
        return WorkersLostError(
            f"a sampler missed a hand-over: the weights of version {version} are needed, and it "
            f"has those of version {self._version}"
        )

    async def _use_adapters(self, lora: Lora, adapters: Mapping[str, Tensor], version: int) -> None:
        """Have vLLM add the output of adapters, which are those of `version`."""
        with ScratchFolder() as folder:
            write_adapters(folder, lora, adapters)
            interrupt = self._spec.rollout.interrupt
            await self._on_loop(self._player.vllm.use_adapters(folder, version, interrupt))

    async def _play(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the player's loop, and count the time as busy."""
        with self._busy.call():
            return await self._on_loop(coroutine)

    async def _on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await self._loop.result(coroutine)


async def _one_thread() -> None:
    torch.set_num_threads(1)
