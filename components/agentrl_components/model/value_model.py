"""The value model of PPO: the policy's architecture with a scalar for every state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agentrl_components.model.decoder import Decoder


class Critic(nn.Module):
    """Expected return [S] of the states [S, E] before sampled tokens."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder
        weight = decoder.model.embed_tokens.weight
        self.head = nn.Linear(decoder.shape.hidden, 1, dtype=weight.dtype, device=weight.device)
        # Zero: the first estimates are 0 rather than noise.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def value(self, hidden_SE: Tensor) -> Tensor:
        """Values [S] in float32."""
        values_S: Tensor = self.head(hidden_SE).squeeze(-1).to(torch.float32)
        return values_S
