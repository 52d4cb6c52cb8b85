"""The record of an episode: tokens, log-probabilities, turns and rewards.

Legend: T tokens of the episode, S sampled tokens (mask is true).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Ending(StrEnum):
    """How an episode ended. Lost episodes are never trained on."""

    TERMINATED = "terminated"
    """The environment ended the episode: the task is solved or failed."""
    TRUNCATED = "truncated"
    """A limit was reached: turns, tokens, or a limit of the environment."""
    LOST = "lost"
    """An infrastructure failure. The episode is dropped from its group and never scored as 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply and its reward."""

    start: int
    """Index of the reply's first token in `Trajectory.ids`."""
    end: int
    """Index after the reply's last token. Forced tokens and a sampled stop token are part of the
    reply."""
    reward: float
    """Reward of this action."""
    wellformed: bool
    """Whether the reply is one valid action."""
    action: str
    """The reply as text, for display and for the environment. It is never encoded again."""
    observation: str
    """The observation before the reply."""
    version: int
    """Policy version that sampled the reply, or its first token."""
    state: str | None = None
    """Hash of the environment's state before the reply, if the environment reports it. GiGPO groups
    turns by it."""
    achieved: tuple[str, ...] = ()
    """Goals that this action reached by chance, if the environment reports them. Used by hindsight
    relabelling."""
    started_s: float = field(default=0.0, compare=False)
    """Seconds from the start of the episode until the reply was requested, for display only: turns
    that differ in their times are equal."""
    duration_s: float = field(default=0.0, compare=False)
    """Seconds from the request of the reply to the environment's answer, for display only. 0: not
    known, as in records of earlier versions."""
    versions: tuple[int, ...] = ()
    """Policy version that sampled each token of the reply. Empty: `version`, for all of them."""
    success: bool = False
    """Whether the task was solved after this action, as the environment defines it; an environment
    may go on after that. False in records of earlier versions."""


CONTEXT_FULL = "the episode filled the context"
"""How the note of an episode begins that ended because its tokens filled the context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode.

    Example: an episode `prompt reply observation reply` of 3 + 2 + 2 + 2 tokens, in which every
    reply ends in a sampled stop token, has the mask 000 11 00 11 and the turns [3, 5) and
    [7, 9)."""

    environment: str
    """Name of the environment in the manifest."""
    task: str
    """Content hash of the task."""
    category: str
    """Category under which success is reported."""
    group: int
    """Index of the task in its iteration."""
    sample: int
    """Index of the episode in its group."""
    iteration: int
    """Iteration of the run; -1 outside training."""
    ids: NDArray[np.int32]  # [T]
    """All token ids of the episode: prompt, replies and observations, exactly as the model saw
    them."""
    mask: NDArray[np.bool_]  # [T]
    """True for tokens that were sampled from the policy."""
    logprobs: NDArray[np.float32]  # [T]
    """Log-probability under the sampling distribution; 0 where the mask is false."""
    allowed: tuple[NDArray[np.int32], ...] | None
    """[S] the allowed token ids at each sampled token, including the sampled one. None: the whole
    vocabulary."""
    turns: tuple[Turn, ...]
    ending: Ending
    score: float
    """Sum of the turns' rewards, in [0, 1]."""
    raw_score: float
    """Score in the environment's own unit."""
    success: bool
    """Whether the task was solved, as the environment defines it."""
    max_turns: int
    """Turn limit of the episode."""
    temperature: float = 1.0
    """Sampling temperature. The trainer uses the same one."""
    note: str = field(default="")
    """Why the episode was lost or truncated, for display."""

    @property
    def out_of_tokens(self) -> bool:
        """Whether the episode ended because its tokens filled the context (`model.context`)."""
        return self.ending is Ending.TRUNCATED and self.note.startswith(CONTEXT_FULL)

    @property
    def num_sampled(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask.sum())

    @property
    def versions(self) -> NDArray[np.int64]:
        """[S] the policy version that sampled each sampled token."""
        versions_T = np.zeros(len(self.ids), dtype=np.int64)
        for turn in self.turns:
            versions_T[turn.start : turn.end] = turn.versions or turn.version
        return versions_T[self.mask]

    def without_times(self) -> Trajectory:
        """The episode without its turns' times, which differ each time that it is played."""
        turns = tuple(replace(turn, started_s=0.0, duration_s=0.0) for turn in self.turns)
        return replace(self, turns=turns)
