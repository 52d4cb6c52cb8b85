"""GSPO: clipped surrogate with one probability ratio per episode.

Zheng et al., Group Sequence Policy Optimization, arXiv 2507.18071. The ratio is the geometric mean
of the episode's token ratios,

    s_i = exp( 1/|y_i| * sum_t (log pi(y_t) - log pi_old(y_t)) ),

and the clip applies to the whole episode. This is the paper's token form (section 4.3),
s_{i,t} = stop_gradient(s_i) * pi(y_t) / stop_gradient(pi(y_t)), which has the same value and,
reduced with `normalise: sequence`, the same gradient as the sequence form. A mean varies less than
its parts, so clip ranges are far smaller than PPO's: the paper uses 3e-4 and 4e-4.

Legend: S sampled tokens of the micro-batch, E episodes in it. Episodes are never split.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrl_components.update.losses.normalise import episode_means
from agentrl_components.update.losses.policy import Surrogate, surrogate


def sequence_surrogate(
    logprobs_S: Tensor,
    old_logprobs_S: Tensor,
    advantages_S: Tensor,
    episode_S: Tensor,
    episodes: int,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Surrogate:
    """The loss per token; `episode_S` [S] int64 numbers the micro-batch's `episodes` from 0."""
    with torch.no_grad():
        mean_E = episode_means(logprobs_S - old_logprobs_S, episode_S, episodes)
    log_ratio_S = mean_E[episode_S] + (logprobs_S - logprobs_S.detach())
    return surrogate(
        log_ratio_S, advantages_S, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
