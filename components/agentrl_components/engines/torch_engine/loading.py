"""New weights that are being loaded into a decoder, in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError
from agentrl_components.model.causal_model import CausalModel
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
        self._copies = decoder.tied_copies()
        self._missing = set() if partial else self._own.keys() - self._copies

    @torch.no_grad()
    def copy(self, weights: Mapping[str, Tensor]) -> None:
        """Copy some of the weights. Raises `EngineError` if they do not fit the model."""
        self._check({name: tuple(tensor.shape) for name, tensor in weights.items()})
        for name, tensor in weights.items():
            if name in self._own:
                self._own[name].copy_(tensor)
                self._missing.discard(name)

    @torch.no_grad()
    def change(self, changes: Collection[WeightChange]) -> None:
        """Write new values of some entries of weights. Raises `EngineError` if they do not fit the
        model."""
        self._check({change.name: change.shape for change in changes})
        for change in changes:
            if change.name in self._own:
                own = self._own[change.name].view(-1)
                places = change.indices.to(own.device, torch.int64)
                own.index_copy_(0, places, change.values.to(own))

    def _check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise `EngineError` if weights of these names and shapes do not fit the model."""
        unknown = sorted(shapes.keys() - self._own.keys() - self._copies)
        if unknown:
            raise EngineError(f"the new weights do not fit the model: unknown {unknown[:3]}")
        for name, shape in shapes.items():
            own = self._own.get(name)
            if own is not None and own.shape != shape:
                raise EngineError(
                    f"the new weights do not fit the model: {name} has shape {shape}, not "
                    f"{tuple(own.shape)}"
                )

    def check_complete(self) -> None:
        """Raise `EngineError` if weights are missing."""
        if self._missing:
            raise EngineError(
                f"the new weights do not fit the model: missing {sorted(self._missing)[:3]}"
            )
