"""Plays episodes in one process: the environments, the dialogue, and an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from agentrl_components.dialogue.open import dialogue_of
from agentrl_components.engines.engine import Engine
from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.spec import RunSpec, Samplers
from agentrl_components.spec.fields.rollout import Interrupt
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.loop_thread import CallersLoop, Loop
from agentrl_envs.world import World

Weights = Callable[[], Mapping[str, Tensor]]
"""Gives the current weights, named as transformers names them."""


class Player:
    """Plays episodes on one event loop. Everything it opens stays open until `close`."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        options: VllmOptions,
        decoder: CausalModel | None,
        loop: Loop | None = None,
    ) -> None:
        """`folder` is the model folder. `decoder` is the model that the torch engine samples from;
        vLLM has its own, started with `options` when it is first needed. `loop` defaults to one on
        the calling thread."""
        self._spec, self._folder, self._options = spec, folder, options
        self.dialogue = dialogue_of(spec, folder)
        self._loop = loop or CallersLoop()
        with ExitStack() as opened:
            opened.callback(self._loop.close)
            self.worlds: dict[str, World] = self._loop.run(open_worlds(spec.environments))
            opened.pop_all()
        self._rollout = TokenRollout(
            self.worlds, self.dialogue, spec.rollout.retries, spec.rollout.concurrency
        )
        self._random = RandomEngine()
        self._torch = TorchEngine(decoder) if decoder is not None else None
        self._vllm: VllmEngine | None = None
        self._version = -1
        """Policy version that the engine has loaded."""
        self.replies = 0
        """Replies so far, of the engine and of the random policy."""

    def play(
        self, jobs: Sequence[Job], rules: Rules, version: int, weights: Weights | None
    ) -> list[Trajectory]:
        """`episodes`, for callers without an event loop."""
        return self._loop.run(self.episodes(jobs, rules, version, weights))

    async def episodes(
        self, jobs: Sequence[Job], rules: Rules, version: int, weights: Weights | None
    ) -> list[Trajectory]:
        """The trajectories of `jobs`, played by policy `version`, whose weights are as in `load`.
        `RANDOM_POLICY` (-1) plays the random policy."""
        if version < 0:
            return await self._play(jobs, rules, self._random)
        await self.load(version, weights)
        return await self.more_episodes(jobs, rules)

    async def more_episodes(self, jobs: Sequence[Job], rules: Rules) -> list[Trajectory]:
        """The trajectories of `jobs`, played by the policy that is loaded, whichever it is at each
        token."""
        return await self._play(jobs, rules, self.engine)

    async def load(
        self, version: int, weights: Weights | None, interrupt: Interrupt = "finish"
    ) -> None:
        """Have the engine sample with the weights of `version`: those that `weights` returns, or,
        if it is None, those that it has, or that have been written to the decoder of the torch
        engine. Replies under way are treated as `rollout.interrupt` says."""
        before, self._version = self._version, version
        if weights is None:
            self.engine.use_as(version)
        elif before != version:
            # Requests that come from now on wait in the engine.
            await self.engine.load(weights(), version, interrupt)

    def rest(self) -> None:
        """Free the memory of a vLLM that shares its GPU with a trainer, until the next `load`. Does
        nothing elsewhere."""
        if self._version >= 0:
            self._loop.run(self.sleep())

    async def sleep(self) -> None:
        """As `rest`, for callers on the loop."""
        if self._vllm is not None and self._options.sleeps:
            # Adapters are handed over without the weights to which they are added.
            await self._vllm.sleep(keeps_weights=self._options.adapter_rank is not None)
            self._version = -1  # weights are loaded anew, although they may be the same

    async def open_engine(self) -> None:
        """Start the engine of the manifest. Raises what `VllmEngine` raises."""
        if self._torch is None:
            self._open_vllm()

    @property
    def engine(self) -> TorchEngine | VllmEngine:
        """The engine of the manifest, which is started if need be."""
        return self._torch if self._torch is not None else self.vllm

    @property
    def vllm(self) -> VllmEngine:
        """vLLM, started on first use: a worker that only computes gradients never needs it. It
        begins with the weights of the model folder. Raises what `VllmEngine` raises."""
        return self._vllm or self._open_vllm()

    async def start_update(self, *, partial: bool) -> None:
        """Begin to give the engine new weights in parts: all, or with `partial` some weights (torch
        engine only) or changes. Replies under way are treated as `rollout.interrupt` says."""
        interrupt = self._spec.rollout.interrupt
        if self._torch is not None:
            await self._torch.start_update(interrupt, partial=partial)
        else:
            await self.vllm.start_update(interrupt, changes=partial)

    async def update(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Give the engine some of the new weights. Raises `EngineError` if they do not fit."""
        if self._torch is None:
            await self.vllm.update(dict(weights))
            return
        for name, tensor in weights:
            await self._torch.update({name: tensor})

    async def change(self, changes: Collection[WeightChange]) -> None:
        """Give the engine new values of some entries of its weights. Raises `EngineError` if they
        do not fit."""
        await self.engine.change(changes)

    async def finish_update(self, version: int) -> None:
        """Use the new weights, which are those of `version`, from now on."""
        await self.engine.finish_update(version)
        self._version = version

    async def drop_update(self) -> None:
        """End an update under way, if there is one, without its other weights. The engine is of use
        again after the next update. Raises what `VllmEngine.drop_update` raises."""
        await self.engine.drop_update()

    def tokens(self) -> tuple[int, int]:
        """Tokens of all requests to the engine so far, and those of them that its cache held."""
        engine = self._torch or self._vllm
        return (0, 0) if engine is None else (engine.prompt_tokens, engine.cached_tokens)

    async def close_sessions(self) -> None:
        """Close the sessions that are open. Later episodes open others."""
        await self._rollout.close()

    def close(self) -> None:
        """Close sessions, environments and engines."""
        if self._vllm is not None:
            self._loop.run(self._vllm.close())
        self._loop.run(self._rollout.close())
        for world in self.worlds.values():
            self._loop.run(world.close())
        self._loop.close()

    def _open_vllm(self) -> VllmEngine:
        if self._vllm is None:
            self._vllm = VllmEngine(self._folder, self._options, version=-1)
        return self._vllm

    async def _play(self, jobs: Sequence[Job], rules: Rules, engine: Engine) -> list[Trajectory]:
        return await self._rollout.play(jobs, rules, CheckedEngine(engine, self._count_reply))

    def _count_reply(self) -> None:
        self.replies += 1


def vllm_options(spec: RunSpec, device: str) -> VllmOptions:
    """The settings of vLLM beside a trainer in the same process."""
    model = spec.model
    return VllmOptions(
        device="cuda" if device.startswith("cuda") else "cpu",
        # Merged adapters are small changes of the weights, which bfloat16 would round away.
        dtype=model.dtype if model.lora is None else "float32",
        context=model.context,
        sleeps=device.startswith("cuda"),
    )


def sampler_options(
    spec: RunSpec, device: str, trains: bool, *, shares: bool = False
) -> VllmOptions:
    """The settings of vLLM in a process without a trainer. `shares`: a trainer in another process
    uses the GPU in turns with it."""
    samplers, lora = spec.compute.samplers or Samplers(), spec.model.lora
    options = replace(
        vllm_options(spec, device),
        replies=samplers.max_batch,
        memory_share=samplers.memory_share,
        tensor_parallel=samplers.tensor_parallel,
        sleeps=shares and device == "cuda",
        eager=True if samplers.eager else None,
    )
    if lora is None or not trains:
        return options
    return replace(options, dtype=spec.model.dtype, adapter_rank=lora.rank)
