"""Credit for single turns from states that several episodes of a task passed through: GiGPO.

Feng et al., Group-in-Group Policy Optimization, arXiv 2505.10978, section 4:

    A(a_t) = A_E(episode) + weight * A_S(a_t)

A_E is the group-relative advantage of the episode's reward. A_S compares, among all turns of a
group's episodes made in the same state (the anchor), the discounted return from that turn on:

    R_t = sum_{k >= t} gamma^(k-t) * r_k,    A_S = (R_t - mean) / (std + 1e-6)

A state seen once, or an environment that does not tell its state, adds nothing: what is left is
GRPO.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl_components.update.advantages.episodes import Advantages, EpisodeView
from agentrl_components.update.advantages.group_relative import centred, group_relative
from agentrl_components.update.advantages.series import discounted

STEP_DISCOUNT = 0.95
"""Discount per turn of the step-level returns: the paper's value."""


def gigpo(
    episodes: Sequence[EpisodeView],
    *,
    weight: float = 1.0,
    scale_by_std: bool = True,
    gamma: float = STEP_DISCOUNT,
) -> Advantages:
    """Each sampled token gets its episode's advantage plus `weight` times its turn's.

    A turn of forced tokens only is compared (its return says what the state is worth) but has no
    token to credit."""
    whole = group_relative(episodes, scale_by_std=scale_by_std).advantages
    returns = [discounted(np.array(e.turn_rewards, dtype=np.float64), gamma) for e in episodes]
    for turns in _anchors(episodes).values():
        steps = centred(np.array([returns[i][u] for i, u in turns]), scale_by_std=scale_by_std)
        for (i, u), step in zip(turns, steps, strict=True):
            start, end = episodes[i].spans[u]
            whole[i][start:end] += np.float32(weight * step) * episodes[i].mask[start:end]
    return Advantages(advantages=whole)


def _anchors(episodes: Sequence[EpisodeView]) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """(group, state) to the (episode, turn) pairs that replied there."""
    anchors: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for i, episode in enumerate(episodes):
        for u, state in enumerate(episode.states):
            if state is not None:
                anchors.setdefault((episode.group, state), []).append((i, u))
    return anchors
