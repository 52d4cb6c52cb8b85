"""Plays episodes in one process: the environments, the dialogue, and an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from torch import Tensor

from agentrl_components.dialogue.open import open_dialogue
from agentrl_components.engines.engine import Engine
from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.world import World

Weights = Callable[[], Mapping[str, Tensor]]
"""Gives the current weights, named as transformers names them."""


class Player:
    """Plays episodes. Everything it opens stays open until `close`. Not thread-safe."""

    def __init__(
        self, spec: RunSpec, folder: Path, options: VllmOptions, decoder: CausalModel | None
    ) -> None:
        """`folder` is the model folder. `decoder` is the model that the torch engine samples from;
        vLLM has its own, started with `options` when it is first needed."""
        self._spec, self._folder, self._options = spec, folder, options
        self.dialogue = open_dialogue(folder, spec.model.template, spec.model.source == "tiny")
        self._loop = asyncio.new_event_loop()
        with ExitStack() as opened:
            opened.callback(self._loop.close)
            self.worlds: dict[str, World] = self._loop.run_until_complete(
                open_worlds(spec.environments)
            )
            opened.pop_all()
        self._rollout = TokenRollout(
            self.worlds, self.dialogue, spec.rollout.retries, spec.rollout.concurrency
        )
        self._random = RandomEngine()
        self._torch = TorchEngine(decoder) if decoder is not None else None
        self._vllm: VllmEngine | None = None
        self._loaded = -1
        """Policy version loaded in vLLM."""

    def play(
        self, jobs: Sequence[Job], rules: Rules, version: int, weights: Weights
    ) -> list[Trajectory]:
        """The trajectories of `jobs`, played by policy `version`: its weights are in the decoder,
        or are what `weights` returns. `RANDOM_POLICY` (-1) plays the random policy."""
        engine = self._random if version < 0 else self._engine(version, weights)
        return self._loop.run_until_complete(self._rollout.play(jobs, rules, CheckedEngine(engine)))

    def _engine(self, version: int, weights: Weights) -> Engine:
        """The engine of the manifest, loaded with the weights of `version`."""
        if self._spec.rollout.engine == "torch":
            assert self._torch is not None
            self._torch.reset_caches(version)
            return self._torch
        if self._vllm is None:
            # Started on first use: a worker that only computes gradients never needs it.
            self._vllm = VllmEngine(self._folder, self._options, version=-1)
        if self._loaded != version:
            self._loop.run_until_complete(self._vllm.load(weights(), version))
            self._loaded = version
        return self._vllm

    def close(self) -> None:
        """Close sessions, environments and engines."""
        if self._vllm is not None:
            self._loop.run_until_complete(self._vllm.close())
        self._loop.run_until_complete(self._rollout.close())
        for world in self.worlds.values():
            self._loop.run_until_complete(world.close())
        self._loop.close()


def vllm_options(spec: RunSpec, device: str) -> VllmOptions:
    """The settings of vLLM beside a trainer in the same process."""
    model = spec.model
    return VllmOptions(
        device="cuda" if device.startswith("cuda") else "cpu",
        # Merged adapters are small changes of the weights, which bfloat16 would round away.
        dtype=model.dtype if model.lora is None else "float32",
        context=model.context,
    )
