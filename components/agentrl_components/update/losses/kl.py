"""The penalty for leaving a reference policy.

Schulman's estimators of KL(policy || reference) from tokens that the policy sampled
(joschu.net/blog/kl-approx.html), with d = log policy - log reference:

    k1 = d          unbiased, may be negative
    k2 = d^2 / 2    biased, never negative
    k3 = e^-d - 1 + d    unbiased, never negative

each clamped to [-10, 10], since one token of e^-d can outweigh a batch. Which one is chosen decides
the *value* only. The gradient is always d * grad(log policy), the one whose expectation is the
gradient of KL(policy || reference) (Liu et al., Rethinking KL Regularization in RLHF, arXiv
2510.01555): differentiating k1 gives zero on average, no penalty at all, and differentiating k3
gives the gradient of KL(reference || policy). d is clamped there too, so a token far away is still
pulled back, with a bounded force. Where the policy has moved since it sampled, multiply by the
detached ratio (`Surrogate.ratio_S`): value and gradient are then those of the new policy.

Legend: S sampled tokens of the micro-batch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]

KL_LIMIT = 10.0
"""Bound of a token's estimate and of its pull, nats."""


def kl_penalty(logprobs_S: Tensor, reference_S: Tensor, estimator: KlEstimator) -> Tensor:
    """[S] the estimate for each token, with the gradient of the true divergence."""
    distance_S = (logprobs_S - reference_S).detach()
    value_S = _estimate(distance_S, estimator).clamp(-KL_LIMIT, KL_LIMIT)
    pull_S = distance_S.clamp(-KL_LIMIT, KL_LIMIT) * (logprobs_S - logprobs_S.detach())
    return value_S + pull_S


def _estimate(distance_S: Tensor, estimator: KlEstimator) -> Tensor:
    if estimator == "k1":
        return distance_S
    if estimator == "k2":
        return 0.5 * distance_S.square()
    # expm1 keeps the digits of small distances, which a subtraction of ones would cancel.
    return torch.expm1(-distance_S) + distance_S
