"""REINFORCE++: returns normalised over the batch, without a critic.

Hu, REINFORCE++, arXiv 2501.03262, without a discount, and with the KL to a reference policy in the
loss. The return G of each sampled token is then the episode's reward, and the advantage is
(G - mean) / std over all sampled tokens of the batch, in a run with several environments over those
of the same environment. The `-baseline` variant subtracts the group's mean reward first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl_components.update.advantages.episodes import (
    Advantages,
    EpisodeView,
    by_group,
    scatter_to_tokens,
)
from agentrl_components.update.advantages.series import whitened_within


def reinforce_pp(episodes: Sequence[EpisodeView]) -> Advantages:
    """Returns normalised over the batch. Needs no groups."""
    return _normalised(episodes, [episode.reward for episode in episodes])


def reinforce_pp_baseline(episodes: Sequence[EpisodeView]) -> Advantages:
    """Returns of the reward minus its group's mean, normalised over the batch."""
    rewards = np.array([episode.reward for episode in episodes], dtype=np.float64)
    for members in by_group(episodes).values():
        rewards[members] -= rewards[members].mean()
    return _normalised(episodes, rewards.tolist())


def _normalised(episodes: Sequence[EpisodeView], rewards: Sequence[float]) -> Advantages:
    returns = [
        np.full(len(episode.sampled), reward, dtype=np.float64)
        for episode, reward in zip(episodes, rewards, strict=True)
    ]
    final = whitened_within(returns, [episode.environment for episode in episodes])
    return Advantages(
        advantages=tuple(scatter_to_tokens(e.mask, a) for e, a in zip(episodes, final, strict=True))
    )
