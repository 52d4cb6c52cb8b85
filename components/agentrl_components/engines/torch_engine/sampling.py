"""Token sampling: the distribution, and random numbers that depend on a seed only.

Legend: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.engine import Sampling


def distribution(
    logits_BV: Tensor, sampling: Sequence[Sampling], allowed: Sequence[Sequence[int] | None]
) -> Tensor:
    """Log-probabilities [B, V] of the sampled distribution: restricted to the token ids in
    `allowed`, divided by the temperature, cut to the nucleus.

    Temperature 0 is treated as 1; the caller takes the most likely token."""
    logits_BV = logits_BV.float()
    temperatures = [s.temperature or 1.0 for s in sampling]
    if any(t != 1.0 for t in temperatures):
        logits_BV = logits_BV / logits_BV.new_tensor(temperatures)[:, None]
    restricted = [(row, ids) for row, ids in enumerate(allowed) if ids is not None]
    if restricted:
        rows = np.repeat([row for row, _ in restricted], [len(ids) for _, ids in restricted])
        columns = np.concatenate([np.asarray(ids) for _, ids in restricted])
        allowed_BV = np.ones(logits_BV.shape, dtype=bool)
        allowed_BV[[row for row, _ in restricted]] = False
        allowed_BV[rows, columns] = True
        masked_BV = torch.from_numpy(~allowed_BV).to(logits_BV.device)
        logits_BV = logits_BV.masked_fill(masked_BV, -torch.inf)
    logprobs_BV = logits_BV.log_softmax(-1)
    for row, rule in enumerate(sampling):
        if rule.top_p < 1.0:
            logprobs_BV[row] = nucleus(logprobs_BV[row], rule.top_p)
    return logprobs_BV


def nucleus(logprobs_V: Tensor, top_p: float) -> Tensor:
    """Log-probabilities [V] of nucleus sampling (arXiv 1904.09751): the smallest set of most likely
    tokens with probability `top_p` or more, renormalised."""
    sorted_V, order_V = logprobs_V.sort(descending=True, stable=True)
    before_V = sorted_V.exp().cumsum(0) - sorted_V.exp()
    kept_V = sorted_V.masked_fill(before_V >= top_p, -torch.inf)
    return torch.empty_like(logprobs_V).scatter_(0, order_V, kept_V).log_softmax(-1)


def uniforms(seeds: NDArray[np.uint64], counters: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each (seed, counter), by splitmix64, which needs no state."""
    with np.errstate(over="ignore"):
        x = seeds + (counters + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    uniform: NDArray[np.float64] = (x >> np.uint64(11)).astype(np.float64) / float(1 << 53)
    return uniform


def pick(logprobs_BV: Tensor, draws_B: Tensor, greedy_B: Tensor) -> Tensor:
    """The token [B] at which the cumulative probability exceeds the draw in [0, 1), or the most
    likely token where `greedy_B`. A token of probability 0 is never picked."""
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    passed_BV = cumulative_BV > draws_B[:, None] * cumulative_BV[:, -1:]
    drawn_B = passed_BV.int().argmax(-1)
    if bool(greedy_B.any()):
        return torch.where(greedy_B, logprobs_BV.argmax(-1), drawn_B)
    return drawn_B
