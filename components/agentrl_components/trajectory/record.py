"""The record of an episode: what was seen, sampled and earned, token by token.

Legend: T tokens of the episode, U turns, S sampled tokens (where the mask is true).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Ending(StrEnum):
    """How an episode ended. Three different things; only the first two are ever trained on."""

    TERMINATED = "terminated"
    """The task ended, solved or failed for good."""
    TRUNCATED = "truncated"
    """A limit was reached: turns, tokens, or the environment's own."""
    LOST = "lost"
    """Infrastructure failed. Dropped from its group, never scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply and what it led to."""

    start: int
    """Index in `Trajectory.ids` of the reply's first token."""
    end: int
    """One past the reply's last token, forced tokens and a sampled stop token included."""
    reward: float
    """Earned by this action."""
    wellformed: bool
    """The reply held one valid action."""
    action: str
    """The reply as text: for people and for the environment, never encoded again."""
    observation: str
    """What the agent saw before it replied."""
    version: int
    """Policy version that sampled it."""
    state: str | None = None
    """Hash of the hidden state before the reply, where the environment tells (GiGPO's anchor)."""
    achieved: tuple[str, ...] = ()
    """Goals that this action happened to reach, where the environment tells (hindsight)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode.

    For a two-turn episode `prompt reply observation reply` of 3 + 2 + 2 + 2 tokens, the last of
    each reply a sampled stop token, mask is 000 11 00 11 and turns are [3, 5) and [7, 9)."""

    environment: str
    """Name in the manifest."""
    task: str
    """Content hash of the task."""
    category: str
    """What success is reported by."""
    group: int
    """Index of the task in its iteration."""
    sample: int
    """Index of the episode in its group."""
    iteration: int
    """Iteration of the whole run; -1 outside training."""
    ids: NDArray[np.int32]  # [T]
    """Token ids exactly as prompted, sampled, forced and observed."""
    mask: NDArray[np.bool_]  # [T]
    """True where the agent sampled the token."""
    logprobs: NDArray[np.float32]  # [T]
    """Log-probability under the distribution that was sampled; 0 where the mask is false."""
    allowed: tuple[NDArray[np.int32], ...] | None
    """[S] ids that could have been sampled in place of each sampled token, itself included. None:
    the whole vocabulary."""
    turns: tuple[Turn, ...]
    ending: Ending
    score: float
    """Sum of the turns' rewards, in [0, 1]."""
    raw_score: float
    """In the environment's own unit."""
    success: bool
    """Solved, as the environment defines it."""
    max_turns: int
    """The horizon it was played at."""
    temperature: float = 1.0
    """Of sampling; the trainer scores at the same one."""
    note: str = field(default="")
    """Why it was lost or cut, for people."""

    @property
    def num_sampled(self) -> int:
        """Tokens the agent sampled."""
        return int(self.mask.sum())
