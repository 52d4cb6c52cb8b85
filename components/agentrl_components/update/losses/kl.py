"""KL penalty towards a reference policy.

Schulman's estimators of KL(policy || reference) from tokens that the policy sampled
(joschu.net/blog/kl-approx.html), with d = log policy - log reference:

    k1 = d          unbiased, may be negative
    k2 = d^2 / 2    biased, never negative
    k3 = e^-d - 1 + d    unbiased, never negative

each clamped to [-10, 10], since e^-d of one token can outweigh a batch. The choice of estimator
affects the value only. The gradient is always d * grad(log policy), whose expectation is the
gradient of KL(policy || reference) (Liu et al., Rethinking KL Regularization in RLHF, arXiv
2510.01555). Differentiating k1 would give zero in expectation, and differentiating k3 the gradient
of KL(reference || policy). d is clamped in the gradient too, so that a token with a large d has a
bounded gradient towards the reference. To get value and gradient for a policy that has changed
since the tokens were sampled, multiply by the detached ratio of the token (`policy.token_ratios`),
bounded by `KL_RATIO_CAP`, and if another policy sampled them, by `importance.ImportanceWeights`
too.

Legend: S sampled tokens of the micro-batch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]

KL_LIMIT = 10.0
"""Bound of a token's estimate and of d in its gradient, in nats."""

KL_RATIO_CAP = 2.0
"""Bound of the ratio that weights a token's penalty (truncated importance sampling). Without it, a
token whose probability has grown by e^12 would outweigh all others."""


def kl_penalty(logprobs_S: Tensor, reference_S: Tensor, estimator: KlEstimator) -> Tensor:
    """[S] the penalty of each token in nats, with the gradient of KL(policy || reference)."""
    distance_S = (logprobs_S - reference_S).detach()
    value_S = _estimate(distance_S, estimator).clamp(-KL_LIMIT, KL_LIMIT)
    gradient_S = distance_S.clamp(-KL_LIMIT, KL_LIMIT) * (logprobs_S - logprobs_S.detach())
    return value_S + gradient_S


def _estimate(distance_S: Tensor, estimator: KlEstimator) -> Tensor:
    if estimator == "k1":
        return distance_S
    if estimator == "k2":
        return 0.5 * distance_S.square()
    # expm1 keeps the precision for small distances.
    return torch.expm1(-distance_S) + distance_S
