"""Generalised advantage estimation (GAE), for PPO.

Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation, arXiv
1506.02438, equations 11 and 16:

    delta_t = r_t + gamma * V(s_{t+1}) - V(s_t)
    A_t     = delta_t + gamma * lam * A_{t+1}

A step is a sampled token (`token_level`) or a turn (`turn_level`). Prompts, observations and forced
tokens are not steps: the step after a reply's last token is the first token of the next reply. A
turn's reward is given at its last step, that of a turn without steps at the step before it; the
value after the episode's last step is 0.

In a run with several environments, one whose episodes all have the same reward has advantages 0:
normalised within it they would be the critic's errors, as large as the signal of the others.

Legend: T tokens, S sampled tokens, U turns with at least one sampled token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrl_components.update.advantages.episodes import (
    Advantages,
    EpisodeView,
    scatter_to_tokens,
    silent_environments,
)
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
        ends_U = np.searchsorted(episode.sampled, [end for _, end in episode.spans])
        rewards_S = _rewards(episode, ends_U, values_S.size)
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
        ends_U = np.cumsum([of_turn.size > 0 for of_turn in tokens], dtype=np.intp)
        tokens = [of_turn for of_turn in tokens if of_turn.size]
        lengths_U = np.array([of_turn.size for of_turn in tokens], dtype=np.intp)
        first_U = np.array([of_turn[0] for of_turn in tokens], dtype=np.intp)
        values_U = _values(episode)[first_U].astype(np.float64)
        rewards_U = _rewards(episode, ends_U, values_U.size)
        advantages_U = _estimate(rewards_U, values_U, gamma, lam)
        advantages.append(np.repeat(advantages_U, lengths_U))
        returns.append(np.repeat(advantages_U + values_U, lengths_U))
    return _pack(episodes, advantages, returns)


def _rewards(episode: EpisodeView, ends_U: NDArray[np.intp], steps: int) -> NDArray[np.float64]:
    """The reward of each step. `ends_U`: number of steps before the end of each turn."""
    rewards = np.zeros(steps, dtype=np.float64)
    if steps:
        np.add.at(rewards, np.maximum(ends_U - 1, 0), episode.turn_rewards)
    return rewards


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
    if len(set(names)) > 1:
        silent = silent_environments(episodes)
        final = [a * (name not in silent) for a, name in zip(final, names, strict=True)]
    return Advantages(
        advantages=tuple(
            scatter_to_tokens(e.mask, a) for e, a in zip(episodes, final, strict=True)
        ),
        returns=tuple(scatter_to_tokens(e.mask, r) for e, r in zip(episodes, returns, strict=True)),
    )
