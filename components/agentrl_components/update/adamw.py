"""AdamW over a single vector.

`torch.optim.AdamW` computes the same bits, but constructing one imports torch's compiler, which
takes over two seconds in every process that trains or evaluates. This class calls the functional
form that `torch.optim.AdamW` itself uses.

Legend: P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

BETA1 = 0.9
EPSILON = 1e-8


class AdamW:
    """AdamW (Loshchilov & Hutter, arXiv 1711.05101) for one vector [P]."""

    def __init__(
        self,
        vector_P: Tensor,
        *,
        beta2: float,
        weight_decay: float,
        decayed: Sequence[Tensor] | None = None,
    ) -> None:
        """`decayed` are the views of `vector_P` that weight decay applies to; None: all of it."""
        self._vector, self._beta2, self._weight_decay = vector_P, beta2, weight_decay
        self._decayed = [vector_P] if decayed is None else list(decayed)
        self._moments: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, gradient_P: Tensor, learning_rate: float) -> None:
        """Update the vector in place."""
        if not self._moments:
            self._moments = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(self._vector),
                "exp_avg_sq": torch.zeros_like(self._vector),
            }
        if self._weight_decay:
            for part in self._decayed:
                part.mul_(1 - learning_rate * self._weight_decay)
        adamw(
            [self._vector],
            [gradient_P],
            [self._moments["exp_avg"]],
            [self._moments["exp_avg_sq"]],
            [],
            [self._moments["step"]],
            foreach=False,
            amsgrad=False,
            beta1=BETA1,
            beta2=self._beta2,
            lr=learning_rate,
            weight_decay=0.0,  # applied above
            eps=EPSILON,
            maximize=False,
        )

    @property
    def steps(self) -> int:
        """Steps taken since the moments were last cleared."""
        return int(self._moments["step"]) if self._moments else 0

    def state_dict(self) -> dict[str, Any]:
        """The moments in the format of torch's optimizers."""
        return {"state": {0: dict(self._moments)} if self._moments else {}, "param_groups": []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the moments by those of a `state_dict`."""
        found: Mapping[str, Tensor] = state["state"].get(0, {})
        self._moments = {
            name: value.to(_device(name, self._vector)) for name, value in found.items()
        }

    def clear(self) -> None:
        """Reset the moments."""
        self._moments = {}


def _device(name: str, vector_P: Tensor) -> torch.device:
    """The step count stays on the CPU, where bias correction reads it."""
    return torch.device("cpu") if name == "step" else vector_P.device
