"""Value model of PPO: the policy's architecture with a scalar head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agentrl_components.model.causal_model import CausalModel


class Critic(nn.Module):
    """Estimates the expected return at each sampled token."""

    def __init__(self, decoder: CausalModel) -> None:
        super().__init__()
        self.decoder = decoder
        weight = next(decoder.parameters())
        self.head = nn.Linear(decoder.states_width, 1, dtype=weight.dtype, device=weight.device)
        # Initial estimates are 0 instead of noise.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def value(self, hidden_SE: Tensor) -> Tensor:
        """Values [S] in float32 of hidden states [S, E] that predict sampled tokens."""
        values_S: Tensor = self.head(hidden_SE).squeeze(-1).to(torch.float32)
        return values_S
