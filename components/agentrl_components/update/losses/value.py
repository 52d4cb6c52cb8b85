"""Clipped value loss of the critic.

    L_t = 1/2 * max( (V_t - G_t)^2, (clip(V_t, V_old - c, V_old + c) - G_t)^2 )

as in PPO's reference code (Schulman et al., arXiv 1707.06347; described in Engstrom et al., arXiv
2005.12729, section 3). The maximum removes the incentive to move a value further than c from its
old estimate V_old in one update.

Legend: S sampled tokens of the micro-batch.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_value_loss(
    values_S: Tensor, old_values_S: Tensor, returns_S: Tensor, *, value_clip: float
) -> Tensor:
    """[S] the loss per token; reduce it with `losses.normalise.reduced`."""
    old_values_S, returns_S = old_values_S.detach(), returns_S.detach()
    near_S = old_values_S + (values_S - old_values_S).clamp(-value_clip, value_clip)
    free_S = (values_S - returns_S).square()
    return 0.5 * torch.maximum(free_S, (near_S - returns_S).square())
