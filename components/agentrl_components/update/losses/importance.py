"""Correction for a sampler that is not quite the policy being trained.

The engine that sampled and the trainer that scores compute the same model with different kernels,
and possibly with different versions of its weights. The gradient is made right for the trainer's
policy by the weight w = trainer / sampler probability of each token, bounded: truncated importance
sampling (Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025;
the bound is that of Espeholt et al., IMPALA, arXiv 1802.01561).

Where the weights that played are older than those that the update begins with, this is the
decoupled objective of asynchronous training (Hilton et al., arXiv 2110.00641; AReaL, arXiv
2505.24298): the clip holds the new policy near the trainer's, and the older one only weighs.

    truncate    w = min(ratio, cap)
    mask        w = ratio where 1/cap <= ratio <= cap, else 0

Legend: S sampled tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agentrl_components.update.losses.policy import LOG_RATIO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceWeights:
    """Weights without gradient, and how far apart the two policies are."""

    weights_S: Tensor
    """[S] factor of each token's policy loss."""
    bounded_S: Tensor
    """[S] bool: the ratio was beyond the cap (or, for mask, below its inverse)."""
    mismatch_kl_S: Tensor
    """[S] nats; its mean estimates KL(sampler || trainer), never negative."""


@torch.no_grad()
def importance_weights(
    trainer_logprobs_S: Tensor,
    sampler_logprobs_S: Tensor,
    *,
    mode: Literal["off", "truncate", "mask"],
    cap: float,
) -> ImportanceWeights:
    """Weights from the two log-probabilities of the same tokens at the same temperature.

    `trainer_logprobs_S` are those before the update (the old ones), computed by the trainer."""
    difference_S = trainer_logprobs_S - sampler_logprobs_S
    ratio_S = difference_S.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    over_S = ratio_S > cap
    if mode == "off":
        weights_S, bounded_S = torch.ones_like(ratio_S), torch.zeros_like(over_S)
    elif mode == "truncate":
        weights_S, bounded_S = ratio_S.clamp(max=cap), over_S
    else:
        bounded_S = over_S | (ratio_S < 1.0 / cap)
        weights_S = ratio_S.masked_fill(bounded_S, 0.0)
    # Schulman's k3 for samples of the sampler: ratio - 1 - log ratio.
    kl_S = torch.expm1(difference_S.clamp(max=LOG_RATIO_LIMIT)) - difference_S
    return ImportanceWeights(weights_S=weights_S, bounded_S=bounded_S, mismatch_kl_S=kl_S)
