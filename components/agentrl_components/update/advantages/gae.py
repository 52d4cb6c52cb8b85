"""Generalised advantage estimation (GAE), for PPO.

Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation, arXiv
1506.02438, equations 11 and 16:

    delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)
    A_t     = delta_t + gamma * lam * A_{t+1}

A step is a sampled token (`token_level`) or a turn (`turn_level`). Prompts, observations and forced
tokens are not steps: the step after a reply's last token is the first token of the next reply. The
episode's reward is given at its last step, and the value after it is 0.

Legend: T tokens, S sampled tokens, U turns with at least one sampled token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.update.advantages.episodes import Advantages, EpisodeView, scatter_to_tokens
from agentrl_components.update.advantages.series import discounted, whitened_within


def token_level(episodes: Sequence[EpisodeView], *, gamma: float, lam: float) -> Advantages:
    """GAE with one step per sampled token.

    Returns advantages, normalised over the sampled tokens of each environment, and the critic's
    targets A_t + V(s_t) from the advantages before normalisation.

    Raises:
        ValueError: an episode has no values.
    """
    advantages, returns = [], []
    for episode in episodes:
        values_S = _values(episode)[episode.sampled].astype(np.float64)
        rewards_S = np.zeros_like(values_S)
        if values_S.size:
            rewards_S[-1] = episode.reward
        advantages_S = _estimate(rewards_S, values_S, gamma, lam)
        advantages.append(advantages_S)
        returns.append(advantages_S + values_S)
    return _pack(episodes, advantages, returns)


def turn_level(episodes: Sequence[EpisodeView], *, gamma: float, lam: float) -> Advantages:
    """GAE with one step per turn. All sampled tokens of a turn share its advantage and return.

    The value of a turn is the critic's value at its first sampled token. A turn without sampled
    tokens is not a step. Returns and errors are those of `token_level`.
    """
    advantages, returns = [], []
    for episode in episodes:
        tokens = [start + np.flatnonzero(episode.mask[start:end]) for start, end in episode.spans]
        tokens = [of_turn for of_turn in tokens if of_turn.size]
        lengths_U = np.array([of_turn.size for of_turn in tokens], dtype=np.intp)
        first_U = np.array([of_turn[0] for of_turn in tokens], dtype=np.intp)
        values_U = _values(episode)[first_U].astype(np.float64)
        rewards_U = np.zeros_like(values_U)
        if values_U.size:
            rewards_U[-1] = episode.reward
        advantages_U = _estimate(rewards_U, values_U, gamma, lam)
        advantages.append(np.repeat(advantages_U, lengths_U))
        returns.append(np.repeat(advantages_U + values_U, lengths_U))
    return _pack(episodes, advantages, returns)


def _estimate(
    rewards: NDArray[np.float64], values: NDArray[np.float64], gamma: float, lam: float
) -> NDArray[np.float64]:
    following = np.append(values[1:], 0.0)[: values.size]
    return discounted(rewards + gamma * following - values, gamma * lam)


def _values(episode: EpisodeView) -> NDArray[np.float32]:
    if episode.values is None:
        raise ValueError(
            "generalised advantage estimation needs the critic's values of every episode"
        )
    return episode.values


def _pack(
    episodes: Sequence[EpisodeView],
    advantages: list[NDArray[np.float64]],
    returns: list[NDArray[np.float64]],
) -> Advantages:
    names = [episode.environment for episode in episodes]
    final = whitened_within(advantages, names)
    return Advantages(
        advantages=tuple(
            scatter_to_tokens(e.mask, a) for e, a in zip(episodes, final, strict=True)
        ),
        returns=tuple(scatter_to_tokens(e.mask, r) for e, r in zip(episodes, returns, strict=True)),
    )
