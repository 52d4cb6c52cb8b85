"""The language-model head of a model of transformers, computed without the model's body.

Legend: N tokens, E hidden width, V vocabulary.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from agentrl_components.errors import ArchitectureError, model_errors


class Head:
    """Computes logits from hidden states: runs the model with a stub that returns them in place of
    its body."""

    def __init__(self, model: Any, body_name: str) -> None:
        """`model` is a `PreTrainedModel`, whose part `body_name` computes hidden states. Raises
        `ArchitectureError` if the head cannot be computed without it."""
        self._body = _GivenStates(model.get_submodule(body_name))
        self.model = copy.copy(model)
        """The model whose body is replaced. Its other parts are those of `model`."""
        self.model._modules = {**model._modules, body_name: self._body}
        weight = getattr(model.get_output_embeddings(), "weight", None)
        self.width: int | None = None
        """Width of the hidden states that it reads. None: not known."""
        if weight is not None and weight.dim() == 2:
            self.width = weight.shape[1]
            self._try(weight)

    def logits(self, x_NE: Tensor) -> Tensor:
        """The logits [N, V] of hidden states."""
        self._body.give(x_NE[None])
        try:
            logits_NV: Tensor = self.model(inputs_embeds=x_NE[None], use_cache=False).logits[0]
        finally:
            self._body.give(None)
        return logits_NV

    @torch.no_grad()
    def _try(self, weight: Tensor) -> None:
        family = self.model.config.model_type
        failed = f"model type {family!r}: its language-model head cannot be computed"
        with model_errors(ArchitectureError, failed):
            self.logits(weight.new_zeros(1, weight.shape[1]))


class _GivenStates(nn.Module):
    """Stands for the body of a model: returns hidden states that are there already. So do the
    bodies in it (the decoder of OPT). A head may read other attributes of the body, too."""

    def __init__(self, body: nn.Module) -> None:
        from transformers import PreTrainedModel

        super().__init__()
        self._states: Tensor | None = None
        self._stands_for = (body,)  # a tuple, so that it is not a submodule
        for name, part in body.named_children():
            if isinstance(part, PreTrainedModel):
                self._modules[name] = _GivenStates(part)

    def give(self, states: Tensor | None) -> None:
        """Set the hidden states that it returns, and the bodies in it."""
        self._states = states
        for inner in self._modules.values():
            assert isinstance(inner, _GivenStates)
            inner.give(states)

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__["_modules"]
        (body,) = self.__dict__["_stands_for"]
        return inner[name] if name in inner else getattr(body, name)

    def forward(self, *_: object, **__: object) -> _Output:
        assert self._states is not None
        return _Output(self._states)


class _Output:
    """The output of a body that has hidden states alone; anything else of it is None."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        return None
