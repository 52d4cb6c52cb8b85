"""REINFORCE++: returns normalised over the batch, without a critic.

Hu, REINFORCE++, arXiv 2501.03262. The return of token t is

    G_t = sum_{k >= t} gamma^(k-t) * r_k        (over sampled tokens only)

and the advantage is (G_t - mean) / std over all sampled tokens of the batch, in a run with
several environments over those of the same environment. The reward r_k is the
per-token reward, such as -coefficient * KL to a reference policy, plus the episode's reward at its
last sampled token. The `-baseline` variant subtracts the group's mean reward first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl_components.update.advantages.episodes import Advantages, EpisodeView, by_group, placed
from agentrl_components.update.advantages.series import discounted, whitened_within


def reinforce_pp(episodes: Sequence[EpisodeView], *, gamma: float = 1.0) -> Advantages:
    """Returns normalised over the batch. Needs no groups."""
    return _normalised(episodes, [episode.reward for episode in episodes], gamma)


def reinforce_pp_baseline(episodes: Sequence[EpisodeView], *, gamma: float = 1.0) -> Advantages:
    """Returns of the reward minus its group's mean, normalised over the batch."""
    rewards = np.array([episode.reward for episode in episodes], dtype=np.float64)
    for members in by_group(episodes).values():
        rewards[members] -= rewards[members].mean()
    return _normalised(episodes, rewards.tolist(), gamma)


def _normalised(
    episodes: Sequence[EpisodeView], rewards: Sequence[float], gamma: float
) -> Advantages:
    returns = []
    for episode, reward in zip(episodes, rewards, strict=True):
        rewards_S = np.zeros(len(episode.sampled))
        if episode.token_rewards is not None:
            rewards_S += episode.token_rewards[episode.sampled]
        if rewards_S.size:
            rewards_S[-1] += reward
        returns.append(discounted(rewards_S, gamma))
    final = whitened_within(returns, [episode.environment for episode in episodes])
    return Advantages(advantages=tuple(placed(e, a) for e, a in zip(episodes, final, strict=True)))
