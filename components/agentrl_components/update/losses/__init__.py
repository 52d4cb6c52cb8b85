"""Losses: pure functions of flat vectors over the sampled tokens, one file each.

A step is a loss per token (`policy`, `gspo`, `value`, `kl`), times `importance` weights where the
sampler differs, reduced by `normalise`.
"""

from agentrl_components.update.losses.gspo import sequence_surrogate
from agentrl_components.update.losses.importance import ImportanceWeights, importance_weights
from agentrl_components.update.losses.kl import kl_penalty
from agentrl_components.update.losses.normalise import Denominators, reduced
from agentrl_components.update.losses.policy import Surrogate, clipped_surrogate
from agentrl_components.update.losses.value import clipped_value_loss

__all__ = [
    "Denominators",
    "ImportanceWeights",
    "Surrogate",
    "clipped_surrogate",
    "clipped_value_loss",
    "importance_weights",
    "kl_penalty",
    "reduced",
    "sequence_surrogate",
]
