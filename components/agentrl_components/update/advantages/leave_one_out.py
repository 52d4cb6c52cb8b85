"""RLOO: advantage over the mean reward of the group's other episodes.

Ahmadian et al., Back to Basics, arXiv 2402.14740, equation 8 (after Kool et al., 2019):

    A_i = R_i - 1/(k-1) * sum_{j != i} R_j  =  k/(k-1) * (R_i - mean(R))
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.update.advantages.episodes import (
    Advantages,
    EpisodeView,
    broadcast_to_sampled,
    by_group,
)


def leave_one_out(episodes: Sequence[EpisodeView]) -> Advantages:
    """The episode's advantage at each of its sampled tokens; 0 in a group of one."""
    amounts = [0.0] * len(episodes)
    for members in by_group(episodes).values():
        others = len(members) - 1
        total = sum(episodes[i].reward for i in members)
        for i in members if others else ():
            amounts[i] = episodes[i].reward - (total - episodes[i].reward) / others
    return Advantages(
        advantages=tuple(
            broadcast_to_sampled(e.mask, a) for e, a in zip(episodes, amounts, strict=True)
        )
    )
