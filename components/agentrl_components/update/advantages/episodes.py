"""Input and output of advantage estimators.

Legend: T tokens of an episode, S sampled tokens, U turns. Arrays are not padded: those of different
episodes differ in length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.advantages.reward import shaped

FloatArray = NDArray[np.float32]
K = TypeVar("K", int, str)

TOLERANCE = 1e-9
"""Rewards that differ by no more are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """The part of an episode that its advantages depend on."""

    reward: float
    """Shaped score of the episode, the sum of `turn_rewards`."""
    group: int
    """Episodes with the same number were sampled for the same task."""
    environment: str = ""
    """Returns are normalised among the episodes of one environment."""
    mask: NDArray[np.bool_]  # [T]
    """True for tokens that the agent sampled."""
    spans: tuple[tuple[int, int], ...] = ()
    """[U] token range [start, end) of each reply. Forced tokens inside it have mask False."""
    turn_rewards: tuple[float, ...] = ()
    """[U] reward of each action, scaled like `reward`."""
    states: tuple[str | None, ...] = ()
    """[U] hash of the environment's state before each reply; None if the environment has none."""
    values: FloatArray | None = None  # [T]
    """The critic's value at each token; read only where the mask is True."""

    @classmethod
    def of(
        cls,
        trajectory: Trajectory,
        reward_spec: Reward,
        *,
        values: FloatArray | None = None,
    ) -> EpisodeView:
        """The view of a trajectory, its rewards shaped by the manifest's `algorithm.reward`."""
        turns = trajectory.turns
        # Shaping multiplies the score by a factor, so it applies to each turn's reward as well.
        factor = shaped(1.0, len(turns), trajectory.max_turns, reward_spec)
        return cls(
            reward=shaped(trajectory.score, len(turns), trajectory.max_turns, reward_spec),
            group=trajectory.group,
            environment=trajectory.environment,
            mask=trajectory.mask,
            spans=tuple((turn.start, turn.end) for turn in turns),
            turn_rewards=tuple(factor * turn.reward for turn in turns),
            states=tuple(turn.state for turn in turns),
            values=values,
        )

    @property
    def sampled(self) -> NDArray[np.intp]:
        """[S] indices of the sampled tokens, in order."""
        return np.flatnonzero(self.mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """One array per episode, in the order of the input."""

    advantages: tuple[FloatArray, ...]  # each [T]
    """Advantage of each token; 0 where the mask is False."""
    returns: tuple[FloatArray, ...] | None = None  # each [T]
    """Regression targets of the critic; 0 where the mask is False. None: there is no critic."""


def broadcast_to_sampled(mask_T: NDArray[np.bool_], amount: float) -> FloatArray:
    """[T] `amount` at every sampled token, where `mask_T` is True, and 0 elsewhere."""
    return (np.float32(amount) * mask_T).astype(np.float32)


def scatter_to_tokens(
    mask_T: NDArray[np.bool_], amounts_S: NDArray[np.float64] | FloatArray
) -> FloatArray:
    """[T] `amounts_S` at the sampled tokens, where `mask_T` is True, in order, and 0 elsewhere."""
    amounts_T = np.zeros(len(mask_T), dtype=np.float32)
    amounts_T[mask_T] = amounts_S
    return amounts_T


def by_group(episodes: Sequence[EpisodeView]) -> dict[int, list[int]]:
    """Indices of each group's episodes by group number, in order of appearance."""
    members: dict[int, list[int]] = {}
    for position, episode in enumerate(episodes):
        members.setdefault(episode.group, []).append(position)
    return members


def zero_variance(episodes: Sequence[EpisodeView]) -> frozenset[int]:
    """Groups whose rewards are the same, so that a comparison within the group has no signal
    (DAPO's dynamic sampling, arXiv 2503.14476, section 3.2).

    This includes groups of one, which remain when the other episodes were lost."""
    return _constant((episode.group, episode.reward) for episode in episodes)


def silent_environments(episodes: Sequence[EpisodeView]) -> frozenset[str]:
    """Environments in which all episodes have the same reward, which includes those of one."""
    return _constant((episode.environment, episode.reward) for episode in episodes)


def _constant(rewards: Iterable[tuple[K, float]]) -> frozenset[K]:
    """The keys all of whose rewards are the same, up to rounding."""
    of_key: dict[K, list[float]] = {}
    for key, reward in rewards:
        of_key.setdefault(key, []).append(reward)
    return frozenset(key for key, some in of_key.items() if max(some) - min(some) <= TOLERANCE)
