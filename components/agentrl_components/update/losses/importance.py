"""Importance weights for tokens that another policy sampled.

The sampling engine and the trainer compute the same model with different kernels, and possibly with
different versions of its weights. Each token's loss and KL penalty are multiplied by the ratio of
its probabilities under trainer and sampler, bounded: truncated importance sampling (Yao et al.,
Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025; the bound is that of
Espeholt et al., IMPALA, arXiv 1802.01561).

For episodes sampled by older weights this is the decoupled objective of asynchronous training
(Hilton et al., arXiv 2110.00641; AReaL, arXiv 2505.24298): the clip keeps the new policy near the
trainer's weights before the update, and the sampler's policy enters through the weight only.

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
    """Importance weights without gradient, with statistics."""

    weights_S: Tensor
    """[S] factors of the policy loss and the KL penalty."""
    bounded_S: Tensor
    """[S] bool: the ratio was above the cap or, for `mask`, below its inverse."""
    kept_S: Tensor
    """[S] factors of the entropy, which no action enters: 0 for tokens that are dropped, else 1."""
    mismatch_kl_S: Tensor
    """[S] nats, never negative; the mean estimates KL(sampler || trainer)."""


@torch.no_grad()
def importance_weights(
    trainer_logprobs_S: Tensor,
    sampler_logprobs_S: Tensor,
    *,
    mode: Literal["off", "truncate", "mask"],
    cap: float,
) -> ImportanceWeights:
    """Importance weights of tokens from their log-probabilities at the sampling temperature.

    `trainer_logprobs_S` are computed by the trainer with the weights before the update."""
    difference_S = trainer_logprobs_S - sampler_logprobs_S
    ratio_S = difference_S.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    over_S = ratio_S > cap
    kept_S = torch.ones_like(ratio_S)
    if mode == "off":
        weights_S, bounded_S = kept_S, torch.zeros_like(over_S)
    elif mode == "truncate":
        weights_S, bounded_S = ratio_S.clamp(max=cap), over_S
    else:
        bounded_S = over_S | (ratio_S < 1.0 / cap)
        weights_S = ratio_S.masked_fill(bounded_S, 0.0)
        kept_S = kept_S.masked_fill(bounded_S, 0.0)
    # Schulman's k3 estimator: ratio - 1 - log ratio.
    kl_S = torch.expm1(difference_S.clamp(max=LOG_RATIO_LIMIT)) - difference_S
    return ImportanceWeights(
        weights_S=weights_S, kept_S=kept_S, bounded_S=bounded_S, mismatch_kl_S=kl_S
    )
