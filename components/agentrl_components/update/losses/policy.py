"""Clipped surrogate of PPO with one probability ratio per token.

Schulman et al., PPO, arXiv 1707.06347, equation 7, as a loss to minimise:

    L_t = -min(ratio_t * A_t, clip(ratio_t, 1 - clip_low, 1 + clip_high) * A_t)

with DAPO's separate upper bound (arXiv 2503.14476, section 3.1) and, for negative advantages, the
dual clip L_t <= -dual_clip * A_t (Ye et al., arXiv 1912.09729), which bounds the loss of tokens
whose probability has grown a lot.

Legend: S sampled tokens of all episodes in the micro-batch, concatenated without padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""Bound of log-ratios, against overflow of their exponential. e^20 is far beyond any clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surrogate:
    """Loss of each token, with statistics."""

    loss_S: Tensor
    """[S] with gradient; reduce it with `losses.normalise.reduced`."""
    ratio_S: Tensor
    """[S] new / old probability that the loss is computed from, detached: of a token or, for the
    sequence form, of its episode."""
    clipped_S: Tensor
    """[S] bool: a bound is active, so the token has no gradient."""


def clipped_surrogate(
    logprobs_S: Tensor,
    old_logprobs_S: Tensor,
    advantages_S: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> Surrogate:
    """The loss per token.

    Args:
        logprobs_S: log-probabilities under the policy being trained, with gradient.
        old_logprobs_S: log-probabilities under the policy before the update.
        advantages_S: advantages.
        dual_clip: None for no dual clip.
    """
    log_ratio_S = logprobs_S - old_logprobs_S.detach()
    return surrogate(
        log_ratio_S, advantages_S, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )


def surrogate(
    log_ratio_S: Tensor,
    advantages_S: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> Surrogate:
    """The loss per token from log-ratios with gradient."""
    ratio_S = _ratios(log_ratio_S)
    advantages_S = advantages_S.detach()
    free_S = -ratio_S * advantages_S
    bound_S = -ratio_S.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_S
    loss_S = torch.maximum(free_S, bound_S)
    clipped_S = bound_S > free_S
    if dual_clip is not None:
        limit_S = -dual_clip * advantages_S
        over_S = (advantages_S < 0) & (loss_S > limit_S)
        loss_S = torch.where(over_S, limit_S, loss_S)
        clipped_S = clipped_S | over_S
    return Surrogate(loss_S=loss_S, ratio_S=ratio_S.detach(), clipped_S=clipped_S.detach())


def token_ratios(logprobs_S: Tensor, old_logprobs_S: Tensor) -> Tensor:
    """[S] new / old probability of each token."""
    return _ratios(logprobs_S - old_logprobs_S.detach())


def _ratios(log_ratio_S: Tensor) -> Tensor:
    return log_ratio_S.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
