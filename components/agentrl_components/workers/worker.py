"""A worker: plays episodes and computes gradients of packs in one process.

A worker holds a model whose weights are shared with the other workers, the environments, and an
engine. All of it stays loaded for the whole run; a call transfers only jobs or packs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from agentrl_components.model import lora
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.load import device_weights, open_decoder
from agentrl_components.model.value_model import Critic
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import RunSpec
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.flat_parameters import FlatParameters, Shared
from agentrl_components.update.logprobs import score, states
from agentrl_components.update.objectives import Objective, Sums, accumulate
from agentrl_components.update.packing import Pack
from agentrl_components.workers.player import Player, vllm_options

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
        self.decoder = open_decoder(setup.folder, dtype, device, spec.model.implementation)
        self.decoder.shape.check_context(spec.model.context)
        if spec.model.lora is not None:
            lora.add(self.decoder, spec.model.lora, spec.seed)
        if spec.update.gradient_checkpointing:
            self.decoder.recomputed = self.decoder.shape.layers
        penalised = spec.algorithm.kl.coefficient > 0
        self.policy = FlatParameters(self.decoder, setup.policy, reference=penalised)
        self.critic: Critic | None = None
        if spec.algorithm.traits.needs_critic:
            self.critic = Critic(
                open_decoder(setup.folder, dtype, device, spec.model.implementation)
            )
            self.critic.decoder.recomputed = self.decoder.recomputed
            self.values = FlatParameters(self.critic, setup.critic)
        self.player = Player(spec, setup.folder, vllm_options(spec, setup.device), self.decoder)
        self.dialogue, self.worlds = self.player.dialogue, self.player.worlds
        self._reference: tuple[CausalModel, FlatParameters] | None = None
        self._setup = setup

    def play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, played with the current weights, whose version is `version`;
        `RANDOM_POLICY` (-1) plays the random policy."""
        if version >= 0:
            self.policy.refresh()
        in_place = self.spec.rollout.engine == "torch"
        weights = None if in_place else lambda: device_weights(self.decoder)
        return self.player.play(jobs, rules, version, weights)

    def differentiate(self, objective: Objective, packs: Sequence[Pack], lane: int) -> Sums:
        """Set gradient lane `lane` to the sum of the gradients of `packs`, and return the sums of
        the objective's metrics."""
        self.player.rest()
        values = objective.model == "critic"
        flat = self.values if values else self.policy
        module: nn.Module | None = self.critic if values else self.decoder
        flat.refresh()
        gradient = flat.shared.lanes[lane].zero_()
        flat.gradients_into(gradient)
        adapters = self.spec.model.lora
        drops = adapters is not None and adapters.dropout > 0
        total: Sums = {}
        for pack in packs:
            if drops:
                self._drop(lane, pack)
            loss, sums = objective(module, pack)  # type: ignore[arg-type]
            loss.backward()  # type: ignore[no-untyped-call]
            flat.collect(gradient)
            accumulate(total, sums)
        if drops:
            lora.set_dropout(self.decoder, False)
        return total

    def _drop(self, lane: int, pack: Pack) -> None:
        """Turn dropout on. The dropout mask depends on the run's seed and the pack alone."""
        lora.set_dropout(self.decoder, True)
        torch.manual_seed(derive(self.spec.seed, "dropout", lane, zlib.crc32(pack.ids_N.tobytes())))

    @torch.no_grad()
    def logprobs(self, packs: Sequence[Pack], reference: bool) -> list[Tensor]:
        """Log-probabilities [S] of the sampled tokens of each pack, under the policy or under the
        reference policy."""
        self.player.rest()
        decoder = self._reference_decoder() if reference else self.decoder
        if not reference:
            self.policy.refresh()
        return [score(decoder, pack, self.spec.update.logits_chunk)[0].cpu() for pack in packs]

    @torch.no_grad()
    def estimates(self, packs: Sequence[Pack]) -> list[Tensor]:
        """The critic's values [S] at the sampled tokens of each pack."""
        assert self.critic is not None
        self.player.rest()
        self.values.refresh()
        return [self.critic.value(states(self.critic.decoder, pack)).cpu() for pack in packs]

    def close(self) -> None:
        """Close sessions, environments and engines."""
        self.player.close()

    def _reference_decoder(self) -> CausalModel:
        """The reference policy. It is opened on first use; its trainable weights are those of the
        vector that all workers share."""
        if self._reference is None:
            vector = self.policy.shared.reference
            assert vector is not None  # the objective has a KL penalty
            spec = self.spec
            decoder = open_decoder(
                self._setup.folder,
                DTYPES[spec.model.dtype],
                self.decoder.device,
                spec.model.implementation,
            )
            if spec.model.lora is not None:
                lora.add(decoder, spec.model.lora, spec.seed)
            self._reference = decoder, FlatParameters(decoder, Shared(vector, ()))
        decoder, flat = self._reference
        flat.refresh()
        return decoder
