"""GiGPO: advantages of single turns from states that several episodes of a group visit.

Feng et al., Group-in-Group Policy Optimization, arXiv 2505.10978, section 4:

    A(a_t) = A_E(episode) + weight * A_S(a_t)

A_E is the group-relative advantage of the episode's reward. A_S compares the discounted returns of
all turns of a group that began in the same state (the anchor):

    R_t = sum_{k >= t} gamma^(k-t) * r_k,    A_S = (R_t - mean) / (std + 1e-6)

For states visited once, and environments without state hashes, A_S is 0, which leaves GRPO. All
episodes of a group begin in the same state; a later return to it counts as another state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.update.advantages.episodes import Advantages, EpisodeView
from agentrl_components.update.advantages.group_relative import centred, group_relative
from agentrl_components.update.advantages.series import discounted

STEP_DISCOUNT = 0.95
"""Discount per turn of R_t, as in the paper."""


def gigpo(
    episodes: Sequence[EpisodeView],
    *,
    weight: float = 1.0,
    scale_by_std: bool = True,
) -> Advantages:
    """The episode's advantage plus `weight` times the turn's, at each sampled token.

    A turn without sampled tokens takes part in the comparison, since its return is a sample of the
    state's value, but has no token to get the advantage."""
    whole = group_relative(episodes, scale_by_std=scale_by_std).advantages
    returns = [_returns(episode) for episode in episodes]
    for turns in _anchors(episodes).values():
        steps = centred(np.array([returns[i][u] for i, u in turns]), scale_by_std=scale_by_std)
        for (i, u), step in zip(turns, steps, strict=True):
            start, end = episodes[i].spans[u]
            whole[i][start:end] += np.float32(weight * step) * episodes[i].mask[start:end]
    return Advantages(advantages=whole)


def groups_with_step_signal(
    episodes: Sequence[EpisodeView], *, tolerance: float = 1e-9
) -> frozenset[int]:
    """Groups with a state from which returns differ by more than `tolerance`, so that turns have
    advantages even if all episodes have the same reward."""
    returns = [_returns(episode) for episode in episodes]
    groups = set()
    for (group, _), turns in _anchors(episodes).items():
        of_state = [returns[i][u] for i, u in turns]
        if max(of_state) - min(of_state) > tolerance:
            groups.add(group)
    return frozenset(groups)


def _returns(episode: EpisodeView) -> NDArray[np.float64]:
    """[U] discounted return of each turn."""
    return discounted(np.array(episode.turn_rewards, dtype=np.float64), STEP_DISCOUNT)


def _anchors(episodes: Sequence[EpisodeView]) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """(episode, turn) pairs by (group, state before the turn)."""
    anchors: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for i, episode in enumerate(episodes):
        for u, state in enumerate(episode.states):
            if state is not None:
                anchors.setdefault((episode.group, state), []).append((i, u))
    return anchors
