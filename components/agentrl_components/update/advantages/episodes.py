"""What every estimator is given and what it gives back.

Legend: T tokens of an episode, U turns. The arrays of different episodes differ in length; nothing
is padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.advantages.reward import shaped

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """As much of an episode as its advantages depend on."""

    reward: float
    """Shaped score. It sits on the last sampled token, whatever observation follows."""
    group: int
    """Episodes with the same number are tries at the same task."""
    mask: NDArray[np.bool_]  # [T]
    """True where the agent sampled the token."""
    spans: tuple[tuple[int, int], ...] = ()
    """[U] token range [start, end) of each reply; forced tokens lie inside and are masked."""
    turn_rewards: tuple[float, ...] = ()
    """[U] what each action earned, scaled so that they sum to `reward`."""
    states: tuple[str | None, ...] = ()
    """[U] hash of the hidden state each reply was made in, where the environment tells."""
    values: FloatArray | None = None  # [T]
    """The critic's estimate at each token; read only where the mask is true."""
    token_rewards: FloatArray | None = None  # [T]
    """Extra reward per sampled token, such as -coefficient * KL to a reference."""

    @classmethod
    def of(
        cls,
        trajectory: Trajectory,
        reward_spec: Reward,
        *,
        values: FloatArray | None = None,
        token_rewards: FloatArray | None = None,
    ) -> EpisodeView:
        """The view of a trajectory under the manifest's shaping."""
        turns = trajectory.turns
        # Shaping multiplies the score, so the same factor belongs on each of its parts.
        factor = shaped(1.0, len(turns), trajectory.max_turns, reward_spec)
        return cls(
            reward=shaped(trajectory.score, len(turns), trajectory.max_turns, reward_spec),
            group=trajectory.group,
            mask=trajectory.mask,
            spans=tuple((turn.start, turn.end) for turn in turns),
            turn_rewards=tuple(factor * turn.reward for turn in turns),
            states=tuple(turn.state for turn in turns),
            values=values,
            token_rewards=token_rewards,
        )

    @property
    def sampled(self) -> NDArray[np.intp]:
        """[S] indices of the sampled tokens, in order; empty where every token was forced."""
        return np.flatnonzero(self.mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """One array per episode, in the order the episodes came in."""

    advantages: tuple[FloatArray, ...]  # each [T]
    """How much better than expected; 0 where the mask is false."""
    returns: tuple[FloatArray, ...] | None = None  # each [T]
    """What the critic should have said; 0 where the mask is false. None: there is no critic."""


def spread(episode: EpisodeView, amount: float) -> FloatArray:
    """[T] the same amount on every sampled token of an episode."""
    return (np.float32(amount) * episode.mask).astype(np.float32)


def placed(episode: EpisodeView, amounts: Iterable[float] | NDArray[np.float64]) -> FloatArray:
    """[T] one amount per sampled token, in order, and 0 elsewhere."""
    placed_T = np.zeros(len(episode.mask), dtype=np.float32)
    placed_T[episode.mask] = np.asarray(amounts, dtype=np.float32)
    return placed_T


def by_group(episodes: Sequence[EpisodeView]) -> dict[int, list[int]]:
    """Group number to the positions of its episodes, in order of appearance."""
    members: dict[int, list[int]] = {}
    for position, episode in enumerate(episodes):
        members.setdefault(episode.group, []).append(position)
    return members


def zero_variance(episodes: Sequence[EpisodeView], *, tolerance: float = 1e-9) -> frozenset[int]:
    """Groups whose episodes all earned the same: a comparison says nothing, so they may be dropped.

    A group of one, left when the others were lost, is among them (DAPO's dynamic sampling, arXiv
    2503.14476, section 3.2)."""
    silent = set()
    for group, members in by_group(episodes).items():
        rewards = [episodes[i].reward for i in members]
        if max(rewards) - min(rewards) <= tolerance:
            silent.add(group)
    return frozenset(silent)
