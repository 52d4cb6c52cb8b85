"""Reduction of a loss per token to a scalar.

    token       sum of all tokens / tokens                       DAPO, arXiv 2503.14476, section 3.3
    sequence    sum of episodes' means / episodes                GRPO, arXiv 2402.03300, equation 3
    constant    sum of all tokens / (episodes * token limit)     Dr.GRPO, arXiv 2503.20783

The denominators are those of the whole mini-batch, so the losses and gradients of its micro-batches
add up to those of the mini-batch.

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
    """Denominators of a mini-batch. All are at least 1."""

    tokens: int
    """Sampled tokens of the whole mini-batch."""
    episodes: int
    """Episodes of the whole mini-batch with at least one sampled token."""
    token_limit: int
    """Token limit of an episode, for `constant`."""


def reduced(
    loss_S: Tensor,
    episode_S: Tensor,
    episodes: int,
    mode: Normalisation,
    denominators: Denominators,
) -> Tensor:
    """The micro-batch's share of the mini-batch's loss, a scalar.

    `episode_S` [S] int64 numbers the micro-batch's `episodes` from 0; only `sequence` uses them."""
    if mode == "token":
        return loss_S.sum() / denominators.tokens
    if mode == "sequence":
        return episode_means(loss_S, episode_S, episodes).sum() / denominators.episodes
    return loss_S.sum() / (denominators.episodes * denominators.token_limit)


def episode_means(amounts_S: Tensor, episode_S: Tensor, episodes: int) -> Tensor:
    """[E] mean over each episode's tokens; 0 for an episode without tokens. `episodes` is known to
    the host: to count them here, as `torch.bincount` does too, would wait for a GPU."""
    ones_S = torch.ones_like(episode_S)
    lengths_E = episode_S.new_zeros(episodes).index_add(0, episode_S, ones_S).clamp(min=1)
    sums_E = amounts_S.new_zeros(episodes).index_add(0, episode_S, amounts_S)
    return sums_E / lengths_E
