"""Models that transformers computes: every causal language model it knows.

Training pads each episode of a pack on the right. In a causal model no token sees the padding after
it, so no mask is needed. Logits are those of transformers, with the scaling or capping that some
architectures apply to them.

Legend: N packed tokens, S tokens whose hidden states are asked for, B episodes, T tokens of the
longest episode, E hidden width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentrl_components.errors import ArchitectureError
from agentrl_components.model.causal_model import Attend, CausalModel
from agentrl_components.model.foreign.head import Head
from agentrl_components.model.foreign.shape import shape_of
from agentrl_components.model.packed_attention import PackedCausal


class ForeignModel(CausalModel):
    """Implements `CausalModel` with a model of transformers, whose parts it takes over under their
    names."""

    def __init__(self, model: Any) -> None:
        """`model` is a `PreTrainedModel` with a language-model head."""
        from transformers.pytorch_utils import Conv1D

        super().__init__()
        for name, part in model.named_children():
            self.add_module(name, part)
        self.shape = shape_of(model)
        self.config = model.config
        self.body_name = model.base_model_prefix
        if self.body_name not in self._modules:
            raise ArchitectureError(
                f"model type {model.config.model_type!r}: has no part {self.body_name!r} before "
                "its language-model head"
            )
        self.unread += tuple(model._keys_to_ignore_on_load_unexpected or ())
        self._saved_names: dict[str, str] = {}
        self._ties = _ties(self)
        self.tied_names = frozenset(name for name, _ in self._ties)
        self.transposed = frozenset(
            f"{name}.weight" for name, part in self.named_modules() if isinstance(part, Conv1D)
        )
        for number, block in enumerate(self.blocks()):
            block.forward = _recomputed(block.forward, self, number)
        self._head = Head(model, self.body_name)

    @property
    def body(self) -> nn.Module:
        """The model without its head."""
        return self.get_submodule(self.body_name)

    def forward(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, rows_S: Tensor | None = None
    ) -> Tensor:
        """As `CausalModel.forward`. Raises `TypeError` for an attention other than `PackedCausal`:
        sampling calls the body with a cache of transformers."""
        if not isinstance(attend, PackedCausal):
            raise TypeError("a model of transformers computes packed episodes only")
        found = self.body(input_ids=attend.pad_tokens(ids_N), use_cache=False)
        hidden_NE = attend.unpad(found.last_hidden_state)
        return hidden_NE if rows_S is None else hidden_NE.index_select(0, rows_S)

    def logits(self, x_NE: Tensor) -> Tensor:
        return self._head.logits(x_NE)

    @property
    def states_width(self) -> int:
        return self._head.width or self.shape.hidden

    def blocks(self) -> Iterable[nn.Module]:
        lists = [part for part in self.modules() if isinstance(part, nn.ModuleList)]
        blocks: nn.ModuleList | tuple[()] = max(lists, key=parameter_count, default=())
        if not blocks:
            raise ArchitectureError(f"model type {self.config.model_type!r}: it has no layers")
        return blocks

    def saved(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        from transformers.core_model_loading import revert_weight_conversion

        found: dict[str, Tensor] = revert_weight_conversion(self._head.model, weights)
        return found

    def saved_name(self, name: str) -> str:
        if name not in self._saved_names:
            found = list(self.saved({name: torch.empty(0)}))
            if len(found) != 1:
                raise ArchitectureError(
                    f"model type {self.config.model_type!r}: {name} is saved in another form, so "
                    "this model cannot be trained on Ray, nor with an algorithm that has a critic"
                )
            self._saved_names[name] = found[0]
        return self._saved_names[name]

    @torch.no_grad()
    def allocate(self, device: torch.device) -> None:
        kept = {name: buffer.clone() for name, buffer in self.named_buffers()}
        self.to_empty(device=device)
        for name, buffer in self.named_buffers():
            buffer.copy_(kept[name])
        self.tie()

    def tie(self) -> None:
        """Share again the weights that are tied."""
        for name, source in self._ties:
            place, _, leaf = name.rpartition(".")
            self.get_submodule(place)._parameters[leaf] = self.get_parameter(source)


def _ties(module: nn.Module) -> list[tuple[str, str]]:
    """Names of parameters that are the same object as an earlier one, with that one's name."""
    first: dict[int, str] = {}
    ties = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        if known != name:
            ties.append((name, known))
    return ties


def parameter_count(part: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in part.parameters())


def _recomputed(forward: Callable[..., Any], model: CausalModel, number: int) -> Callable[..., Any]:
    """The `forward` of block `number`, which recomputes its activations as `model.recomputed`
    says."""

    def run(*inputs: Any, **named: Any) -> Any:
        if number < model.recomputed and torch.is_grad_enabled():
            return checkpoint(forward, *inputs, use_reentrant=False, **named)
        return forward(*inputs, **named)

    return run
