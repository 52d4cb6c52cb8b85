"""A worker: plays episodes and computes gradients of packs in one process.

A worker holds a model whose weights are shared with the other workers, the environments, and an
engine. All of it stays loaded for the whole run; a call transfers only jobs or packs.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from agentrl_components.dialogue.open import open_dialogue
from agentrl_components.engines.engine import Engine
from agentrl_components.engines.prefix_check import CheckedEngine
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.model import lora
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import export_weights, open_decoder
from agentrl_components.model.value_model import Critic
from agentrl_components.rollout.environments import open_worlds
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.flat_parameters import FlatParameters, Shared
from agentrl_components.update.logprobs import score, states
from agentrl_components.update.objectives import Objective, Sums, accumulate
from agentrl_components.update.packing import Pack
from agentrl_envs.world import World

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a worker is created from. Sent to another process; the vectors are in shared memory."""

    spec: RunSpec
    folder: Path
    """The model folder, in transformers' layout."""
    device: str
    policy: Shared | None = None
    """Weights and gradients of the policy. None: the worker allocates them."""
    critic: Shared | None = None
    """Weights and gradients of the critic, for PPO."""


class Worker:
    """Plays episodes and computes gradients. Not thread-safe."""

    def __init__(self, setup: Setup) -> None:
        spec = setup.spec
        self.spec = spec
        device = torch.device(setup.device)
        if device.type == "cpu":
            # With one thread, results do not depend on the batch (docs/determinism.md).
            torch.set_num_threads(1)
        dtype = DTYPES[spec.model.dtype]
        self.decoder = open_decoder(setup.folder, dtype, device)
        if spec.model.lora is not None:
            lora.add(self.decoder, spec.model.lora, spec.seed)
        self.decoder.checkpointing = spec.update.gradient_checkpointing
        penalised = spec.algorithm.kl.coefficient > 0
        self.policy = FlatParameters(self.decoder, setup.policy, reference=penalised)
        self.critic: Critic | None = None
        if spec.algorithm.traits.needs_critic:
            self.critic = Critic(open_decoder(setup.folder, dtype, device))
            self.values = FlatParameters(self.critic, setup.critic)
        tiny = spec.model.source == "tiny"
        self.dialogue = open_dialogue(setup.folder, spec.model.template, tiny)
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
        self._torch = TorchEngine(self.decoder)
        self._vllm: VllmEngine | None = None
        self._loaded = -1
        """Policy version loaded in vLLM."""
        self._reference: tuple[Decoder, FlatParameters] | None = None
        self._setup = setup

    def play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, played with the current weights, whose version is `version`;
        `RANDOM_POLICY` (-1) plays the random policy."""
        checked = CheckedEngine(self._random if version < 0 else self._sampler(version))
        return self._loop.run_until_complete(self._rollout.play(jobs, rules, checked))

    def differentiate(self, objective: Objective, packs: Sequence[Pack], lane: int) -> Sums:
        """Set gradient lane `lane` to the sum of the gradients of `packs`, and return the sums of
        the objective's metrics."""
        values = objective.model == "critic"
        flat = self.values if values else self.policy
        module: nn.Module | None = self.critic if values else self.decoder
        flat.refresh()
        gradient = flat.shared.lanes[lane].zero_()
        flat.gradients_into(gradient)
        lora = self.spec.model.lora
        drops = lora is not None and lora.dropout > 0
        total: Sums = {}
        for pack in packs:
            if drops:
                self._drop(lane, pack)
            loss, sums = objective(module, pack)  # type: ignore[arg-type]
            loss.backward()  # type: ignore[no-untyped-call]
            flat.collect(gradient)
            accumulate(total, sums)
        if drops:
            self.decoder.eval()
        return total

    def _sampler(self, version: int) -> Engine:
        """The engine of the manifest, loaded with the current weights."""
        self.policy.refresh()
        if self.spec.rollout.engine == "torch":
            self._torch.reset_caches(version)
            return self._torch
        if self._vllm is None:
            # Started on first use: a worker that only computes gradients never needs it.
            model, device = self.spec.model, torch.device(self._setup.device).type
            options = VllmOptions(
                device="cuda" if device == "cuda" else "cpu",
                # Merged adapters are small changes of the weights, which bfloat16 would round away.
                dtype=model.dtype if model.lora is None else "float32",
                context=model.context,
            )
            self._vllm = VllmEngine(self._setup.folder, options, version=-1)
        if self._loaded != version:
            self._loop.run_until_complete(self._vllm.load(export_weights(self.decoder), version))
            self._loaded = version
        return self._vllm

    def _drop(self, lane: int, pack: Pack) -> None:
        """Turn dropout on. The dropout mask depends on the run's seed and the pack alone."""
        self.decoder.train()
        torch.manual_seed(derive(self.spec.seed, "dropout", lane, zlib.crc32(pack.ids_N.tobytes())))

    @torch.no_grad()
    def logprobs(self, packs: Sequence[Pack], reference: bool) -> list[Tensor]:
        """Log-probabilities [S] of the sampled tokens of each pack, under the policy or under the
        reference policy."""
        decoder = self._reference_decoder() if reference else self.decoder
        if not reference:
            self.policy.refresh()
        return [score(decoder, pack, self.spec.update.logits_chunk)[0].cpu() for pack in packs]

    @torch.no_grad()
    def estimates(self, packs: Sequence[Pack]) -> list[Tensor]:
        """The critic's values [S] at the sampled tokens of each pack."""
        assert self.critic is not None
        self.values.refresh()
        return [self.critic.value(states(self.critic.decoder, pack)).cpu() for pack in packs]

    def close(self) -> None:
        """Close sessions, environments and engines."""
        if self._vllm is not None:
            self._loop.run_until_complete(self._vllm.close())
        self._loop.run_until_complete(self._rollout.close())
        for world in self.worlds.values():
            self._loop.run_until_complete(world.close())
        self._loop.close()

    def _reference_decoder(self) -> Decoder:
        """The reference policy. It is opened on first use; its trainable weights are those of the
        vector that all workers share."""
        if self._reference is None:
            vector = self.policy.shared.reference
            assert vector is not None  # the objective has a KL penalty
            weight = self.decoder.model.embed_tokens.weight
            spec = self.spec
            decoder = open_decoder(self._setup.folder, DTYPES[spec.model.dtype], weight.device)
            if spec.model.lora is not None:
                lora.add(decoder, spec.model.lora, spec.seed)
            self._reference = decoder, FlatParameters(decoder, Shared(vector, ()))
        decoder, flat = self._reference
        flat.refresh()
        return decoder
