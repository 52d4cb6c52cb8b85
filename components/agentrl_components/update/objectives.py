"""Objectives: the policy gradient, the critic's regression and imitation.

An objective maps a pack to the pack's share of the mini-batch's loss and to sums for the metrics.
The shares of all packs add up to the loss, so packs can be differentiated in any process.

Legend: S sampled tokens of a pack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.value_model import Critic
from agentrl_components.spec import Algorithm
from agentrl_components.transfers import on_device
from agentrl_components.update.logprobs import score, states
from agentrl_components.update.losses.importance import importance_weights
from agentrl_components.update.losses.kl import KL_RATIO_CAP, kl_penalty
from agentrl_components.update.losses.normalise import Denominators, reduced
from agentrl_components.update.losses.policy import Surrogate, token_ratios
from agentrl_components.update.losses.registry import SURROGATES
from agentrl_components.update.losses.value import clipped_value_loss
from agentrl_components.update.packing import Pack

Sums = dict[str, float]
"""Sums over sampled tokens by name. Divided by the number of tokens they become metrics."""

PackSums = dict[str, Tensor]
"""The sums of a pack, each a tensor without dimensions on the model's device: to read one waits
until the device has computed it."""

ModelName = Literal["policy", "critic"]
"""The models that are trained."""


def accumulate(total: Sums, more: Sums | PackSums) -> None:
    """Add `more` to `total`, name by name."""
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGradient:
    """Clipped surrogate and KL penalty, weighted by the sampler correction, with entropy bonus."""

    model: ClassVar[ModelName] = "policy"
    algorithm: Algorithm
    denominators: Denominators
    chunk: int
    """Tokens whose logits exist at one time."""
    unmoved: bool
    """The policy's weights have not changed since the update began."""

    def __call__(self, decoder: CausalModel, pack: Pack) -> tuple[Tensor, PackSums]:
        """The pack's share of the loss, and sums.

        Columns of the pack: `advantage`; `sampler`, the sampler's log-probabilities; `old`, the
        trainer's before the update (absent: those of this pass, of a policy that has not moved;
        with `importanceSampling.mode: off` the sampler's); `reference`, those of the reference
        policy, if there is a KL penalty; `stale`, 1 for tokens that earlier weights sampled
        (absent: none).

        The KL divergence between sampler and trainer is summed as `mismatch_kl` over `fresh`
        tokens, and as `lag_kl` over `stale` ones, where the log-probabilities before the update
        are known. Without a column `old` they are until the first step that moved the policy."""
        algorithm = self.algorithm
        logprobs_S, entropy_S = score(
            decoder, pack, self.chunk, entropy_gradient=algorithm.entropy > 0
        )
        columns = _columns(pack, logprobs_S)
        episode_S = on_device(pack.episode_S, logprobs_S.device)
        before_S = columns.get("old", logprobs_S.detach() if self.unmoved else None)
        old_S = self._old(columns, before_S)
        surrogate = self._surrogate(
            logprobs_S, old_S, columns["advantage"], episode_S, len(pack.lengths)
        )
        correction = importance_weights(
            old_S,
            columns["sampler"],
            mode=algorithm.importance_sampling.mode,
            cap=algorithm.importance_sampling.cap,
        )
        loss_S = correction.weights_S * surrogate.loss_S
        if algorithm.entropy:
            loss_S = loss_S - algorithm.entropy * (correction.kept_S * entropy_S)
        sums = {
            "entropy": entropy_S.detach().sum(),
            "clipped": surrogate.clipped_S.sum(),
            "ratio": surrogate.ratio_S.detach().sum(),
            "bounded": correction.bounded_S.sum(),
        }
        if before_S is not None:
            mismatch = importance_weights(before_S, columns["sampler"], mode="off", cap=1.0)
            sums |= _by_age(mismatch.mismatch_kl_S, columns.get("stale"))
        if algorithm.kl.coefficient:
            penalty_S = kl_penalty(logprobs_S, columns["reference"], algorithm.kl.estimator)
            ratio_S = token_ratios(logprobs_S, old_S).detach().clamp(max=KL_RATIO_CAP)
            weight_S = algorithm.kl.coefficient * ratio_S * correction.weights_S
            loss_S = loss_S + weight_S * penalty_S
            sums["kl"] = penalty_S.detach().sum()
        loss = reduced(
            loss_S, episode_S, len(pack.lengths), algorithm.normalisation, self.denominators
        )
        sums["loss"] = loss.detach().double() * self.denominators.tokens
        return loss, sums

    def _old(self, columns: Mapping[str, Tensor], before_S: Tensor | None) -> Tensor:
        """The log-probabilities [S] with which the surrogate compares those of this pass.
        `before_S`: the trainer's before the update, where they are known."""
        if "old" not in columns and self.algorithm.importance_sampling.mode == "off":
            return columns["sampler"]
        assert before_S is not None, "the policy has moved, and there is no column `old`"
        return before_S

    def _surrogate(
        self,
        logprobs_S: Tensor,
        old_S: Tensor,
        advantage_S: Tensor,
        episode_S: Tensor,
        episodes: int,
    ) -> Surrogate:
        """The algorithm's clipped surrogate of the pack's tokens. `episodes`: of the pack."""
        clip_low, clip_high = self.algorithm.clip
        return SURROGATES[self.algorithm.traits.surrogate](
            logprobs_S,
            old_S,
            advantage_S,
            episode_S,
            episodes,
            clip_low=clip_low,
            clip_high=clip_high,
            dual_clip=self.algorithm.dual_clip,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRegression:
    """The critic's clipped squared error."""

    model: ClassVar[ModelName] = "critic"
    value_clip: float
    denominators: Denominators

    def __call__(self, critic: Critic, pack: Pack) -> tuple[Tensor, PackSums]:
        """The pack's share of the loss, and sums. Columns of the pack: `value`, the estimate before
        the update, and `return`."""
        values_S = critic.value(states(critic.decoder, pack))
        columns = _columns(pack, values_S)
        episode_S = on_device(pack.episode_S, values_S.device)
        loss_S = clipped_value_loss(
            values_S, columns["value"], columns["return"], value_clip=self.value_clip
        )
        loss = reduced(loss_S, episode_S, len(pack.lengths), "token", self.denominators)
        return loss, {"value_loss": loss_S.detach().sum()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation:
    """Weighted negative log-likelihood. Column of the pack: `weight`."""

    model: ClassVar[ModelName] = "policy"
    total_weight: float
    """Sum of the weights of the whole mini-batch."""
    chunk: int
    """Tokens whose logits exist at one time."""

    def __call__(self, decoder: CausalModel, pack: Pack) -> tuple[Tensor, PackSums]:
        """The pack's share of the loss, and sums."""
        logprobs_S, _ = score(decoder, pack, self.chunk)
        weight_S = _columns(pack, logprobs_S)["weight"]
        loss = -(weight_S * logprobs_S).sum() / self.total_weight
        return loss, {"loss": loss.detach().double() * self.total_weight}


def _by_age(kl_S: Tensor, stale_S: Tensor | None) -> PackSums:
    """Sums of a divergence over the tokens of the present weights and of earlier ones, and the
    numbers of these tokens."""
    if stale_S is None:
        return {"mismatch_kl": kl_S.sum(), "fresh": torch.tensor(float(len(kl_S)))}
    fresh_S = 1 - stale_S
    return {
        "mismatch_kl": (fresh_S * kl_S).sum(),
        "fresh": fresh_S.sum(),
        "lag_kl": (stale_S * kl_S).sum(),
        "stale": stale_S.sum(),
    }


def _columns(pack: Pack, like: Tensor) -> dict[str, Tensor]:
    """The pack's columns [S], on the device and in the type of `like`."""
    return {name: on_device(c, like.device).to(like) for name, c in pack.columns.items()}


Objective = PolicyGradient | ValueRegression | Imitation
