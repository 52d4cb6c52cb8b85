"""Discounted sums and normalisation of series."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

WHITENING_EPSILON = 1e-8
"""Added to the standard deviation, so that a batch of equal numbers becomes zeros."""


def discounted(amounts: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    """[S] discounted sum of each element and all later ones."""
    if discount == 1.0:
        return np.cumsum(amounts[::-1])[::-1]
    backwards = accumulate(amounts[::-1].tolist(), lambda later, now: now + discount * later)
    return np.array(list(backwards), dtype=np.float64)[::-1]


def whitened_within(
    parts: Sequence[NDArray[np.float64]], names: Sequence[str]
) -> list[NDArray[np.float64]]:
    """The parts, those of each name `whitened` on their own. `names` has one name for each part."""
    result = list(parts)
    for name in dict.fromkeys(names):
        members = [index for index, other in enumerate(names) if other == name]
        for index, part in zip(members, whitened([parts[i] for i in members]), strict=True):
            result[index] = part
    return result


def whitened(parts: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """The parts, shifted and scaled such that all numbers together have mean 0 and standard
    deviation 1 (the population's, divided by n)."""
    together = np.concatenate(parts) if parts else np.zeros(0)
    if together.size == 0:
        return list(parts)
    mean = together.mean()
    scale = together.std() + WHITENING_EPSILON
    return [(part - mean) / scale for part in parts]
