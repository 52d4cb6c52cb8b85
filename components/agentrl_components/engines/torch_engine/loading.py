"""New weights that are being loaded into a decoder, in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import torch
from torch import Tensor

from agentrl_components.errors import EngineError
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.load import TIED_HEAD
from agentrl_components.spec.fields.rollout import Interrupt


class Loading:
    """Copies weights into a decoder, and keeps account of those that are missing."""

    def __init__(self, decoder: CausalModel, interrupt: Interrupt, *, partial: bool) -> None:
        """`interrupt`: what happens to replies under way. `partial`: weights that are not given
        stay as they are; otherwise they are missing."""
        self.interrupt = interrupt
        self.ended = asyncio.Event()
        """Set when the new weights are in use, or have been refused."""
        self._own = {decoder.saved_name(n): tensor for n, tensor in decoder.state_dict().items()}
        tied = {decoder.saved_name(name) for name in decoder.tied_names}
        self._missing = set() if partial else self._own.keys() - tied
        self._extra = {TIED_HEAD} if decoder.shape.tied else set()

    @torch.no_grad()
    def copy(self, weights: Mapping[str, Tensor]) -> None:
        """Copy some of the weights. Raises `EngineError` if they do not fit the model."""
        unknown = sorted(weights.keys() - self._own.keys() - self._extra)
        if unknown:
            raise EngineError(f"the new weights do not fit the model: unknown {unknown[:3]}")
        for name, tensor in weights.items():
            own = self._own.get(name)
            if own is None:
                continue
            if own.shape != tensor.shape:
                raise EngineError(
                    f"the new weights do not fit the model: {name} has shape "
                    f"{tuple(tensor.shape)}, not {tuple(own.shape)}"
                )
            own.copy_(tensor)
            self._missing.discard(name)

    def check_complete(self) -> None:
        """Raise `EngineError` if weights are missing."""
        if self._missing:
            raise EngineError(
                f"the new weights do not fit the model: missing {sorted(self._missing)[:3]}"
            )
