"""Softmax of a row of scores, for float32 on CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.layers import exponentiate

LANES = 16
"""A sum over keys is kept in this many parts, which fill the processor's vector registers."""


@compiled(FUSED)
def whole_vectors(count: int) -> int:
    """The least multiple of `LANES` that is not below `count`."""
    return (count + LANES - 1) // LANES * LANES


@compiled(FUSED)
def softmax(scores_T: NDArray[np.float32], count: int, powers_T: NDArray[np.int32]) -> np.float32:
    """Replace the first `count` scores by their softmax, and those after them, up to a multiple of
    `LANES`, by 0. `powers_T` is memory for intermediate results.

    Returns the logarithm of the sum of exponentials."""
    end = whole_vectors(count)
    for t in range(count, end):
        scores_T[t] = scores_T[0]
    lanes = scores_T[:LANES].copy()
    for first in range(LANES, end, LANES):
        for lane in range(LANES):
            lanes[lane] = max(lanes[lane], scores_T[first + lane])
    highest = lanes[0]
    for lane in range(LANES):
        highest = max(highest, lanes[lane])
    for t in range(end):
        scores_T[t] -= highest
    exponentiate(scores_T[:end], powers_T)
    for t in range(count, end):
        scores_T[t] = 0
    for lane in range(LANES):
        lanes[lane] = scores_T[lane]
    for first in range(LANES, end, LANES):
        for lane in range(LANES):
            lanes[lane] += scores_T[first + lane]
    total = np.float32(0)
    for lane in range(LANES):
        total += lanes[lane]
    share = np.float32(1) / total
    for t in range(count):
        scores_T[t] *= share
    log_sum: np.float32 = highest + np.log(total)
    return log_sum
