"""Clipped surrogates by name, as `spec.algorithms` refers to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from agentrl_components.spec.algorithms import SurrogateName
from agentrl_components.update.losses.gspo import sequence_surrogate
from agentrl_components.update.losses.policy import Surrogate, clipped_surrogate


class SurrogateLoss(Protocol):
    """A policy loss per sampled token [S]."""

    def __call__(
        self,
        logprobs_S: Tensor,
        old_logprobs_S: Tensor,
        advantages_S: Tensor,
        episode_S: Tensor,
        episodes: int,
        *,
        clip_low: float,
        clip_high: float,
        dual_clip: float | None,
    ) -> Surrogate:
        """`episode_S` [S] int64 numbers the micro-batch's `episodes` from 0."""
        ...


def _per_token(
    logprobs_S: Tensor,
    old_logprobs_S: Tensor,
    advantages_S: Tensor,
    episode_S: Tensor,
    episodes: int,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> Surrogate:
    del episode_S, episodes
    return clipped_surrogate(
        logprobs_S,
        old_logprobs_S,
        advantages_S,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )


SURROGATES: Mapping[SurrogateName, SurrogateLoss] = MappingProxyType(
    {"token": _per_token, "sequence": sequence_surrogate}
)
"""Keyed by `AlgorithmTraits.surrogate`."""
