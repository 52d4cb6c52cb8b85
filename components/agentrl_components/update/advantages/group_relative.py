"""The advantage over the other tries at the same task: GRPO, Dr.GRPO and, with its own ratio, GSPO.

Shao et al., DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision):

    A_i = (R_i - mean(R)) / (std(R) + 1e-6)

with the group's unbiased standard deviation. Liu et al., Understanding R1-Zero-Like Training, arXiv
2503.20783 (Dr.GRPO): without the division, which favours tasks that are nearly always or nearly
never solved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.update.advantages.episodes import Advantages, EpisodeView, by_group, spread

GROUP_EPSILON = 1e-6
"""Added to the group's standard deviation."""


def group_relative(episodes: Sequence[EpisodeView], *, scale_by_std: bool = True) -> Advantages:
    """Every sampled token of an episode gets the episode's advantage; a group of one gets 0."""
    amounts = np.zeros(len(episodes))
    for members in by_group(episodes).values():
        rewards = np.array([episodes[i].reward for i in members], dtype=np.float64)
        amounts[members] = centred(rewards, scale_by_std=scale_by_std)
    return Advantages(
        advantages=tuple(spread(e, a) for e, a in zip(episodes, amounts, strict=True))
    )


def centred(returns: NDArray[np.float64], *, scale_by_std: bool) -> NDArray[np.float64]:
    """[G] each return less the group's mean, divided by its unbiased deviation where asked."""
    if returns.size < 2:
        return np.zeros_like(returns)
    less_mean: NDArray[np.float64] = returns - returns.mean()
    if not scale_by_std:
        return less_mean
    scaled: NDArray[np.float64] = less_mean / (returns.std(ddof=1) + GROUP_EPSILON)
    return scaled
