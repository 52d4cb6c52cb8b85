"""From a loss per token to one number, such that micro-batches add up to their mini-batch.

    token       sum of all tokens / tokens                       DAPO, arXiv 2503.14476, section 3.3
    sequence    sum of episodes' means / episodes                GRPO, arXiv 2402.03300, equation 3
    constant    sum of all tokens / (episodes * token limit)     Dr.GRPO, arXiv 2503.20783

The denominators are those of the whole mini-batch and are given, never counted from what is at
hand: the losses of the micro-batches, summed, are then exactly the loss of the mini-batch, and so
are their gradients.

Legend: S sampled tokens of the micro-batch, E episodes in it. Episodes are never split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Normalisation = Literal["token", "sequence", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denominators:
    """What a mini-batch is divided by. All at least 1."""

    tokens: int
    """Sampled tokens of the whole mini-batch."""
    episodes: int
    """Episodes of the whole mini-batch that hold a sampled token."""
    token_limit: int
    """Tokens an episode may have at most; for `constant`."""


def reduced(
    loss_S: Tensor, episode_S: Tensor, mode: Normalisation, denominators: Denominators
) -> Tensor:
    """The micro-batch's share of the mini-batch's loss, a scalar.

    `episode_S` [S] int64 counts the micro-batch's episodes from 0; only `sequence` reads it."""
    if mode == "token":
        return loss_S.sum() / denominators.tokens
    if mode == "sequence":
        return episode_means(loss_S, episode_S).sum() / denominators.episodes
    return loss_S.sum() / (denominators.episodes * denominators.token_limit)


def episode_means(amounts_S: Tensor, episode_S: Tensor) -> Tensor:
    """[E] the mean over each episode's tokens; 0 for an index that has none."""
    episodes = int(episode_S.max()) + 1 if episode_S.numel() else 0
    lengths_E = torch.bincount(episode_S, minlength=episodes).clamp(min=1)
    sums_E = amounts_S.new_zeros(episodes).index_add(0, episode_S, amounts_S)
    return sums_E / lengths_E
