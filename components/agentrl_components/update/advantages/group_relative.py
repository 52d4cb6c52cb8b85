"""Group-relative advantages: GRPO, Dr.GRPO and GSPO.

Shao et al., DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision):

    A_i = (R_i - mean(R)) / (std(R) + 1e-6)

with the unbiased standard deviation of the group's rewards R. Dr.GRPO (Liu et al., Understanding
R1-Zero-Like Training, arXiv 2503.20783) omits the division, which gives more weight to tasks that
are nearly always or nearly never solved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.update.advantages.episodes import (
    Advantages,
    EpisodeView,
    broadcast_to_sampled,
    by_group,
)

GROUP_EPSILON = 1e-6
"""Added to the group's standard deviation."""


def group_relative(episodes: Sequence[EpisodeView], *, scale_by_std: bool = True) -> Advantages:
    """The episode's advantage at each of its sampled tokens; 0 in a group of one."""
    amounts = np.zeros(len(episodes))
    for members in by_group(episodes).values():
        rewards = np.array([episodes[i].reward for i in members], dtype=np.float64)
        amounts[members] = centred(rewards, scale_by_std=scale_by_std)
    return Advantages(
        advantages=tuple(
            broadcast_to_sampled(e.mask, a) for e, a in zip(episodes, amounts, strict=True)
        )
    )


def centred(returns: NDArray[np.float64], *, scale_by_std: bool) -> NDArray[np.float64]:
    """[G] returns minus their mean, divided by their unbiased standard deviation if
    `scale_by_std`. 0 for a single return."""
    if returns.size < 2:
        return np.zeros_like(returns)
    less_mean: NDArray[np.float64] = returns - returns.mean()
    if not scale_by_std:
        return less_mean
    scaled: NDArray[np.float64] = less_mean / (returns.std(ddof=1) + GROUP_EPSILON)
    return scaled
