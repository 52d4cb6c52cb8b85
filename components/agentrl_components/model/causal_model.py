"""The interface of a policy's model, whichever implementation computes it.

Legend: N tokens packed in a row, S tokens whose hidden states are asked for, E hidden width, H
query heads, K key heads, D head width, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn

from agentrl_components.errors import ArchitectureError
from agentrl_components.model.architecture import Architecture

TIED_HEAD = "lm_head.weight"
"""Transformers' name of an output head that may be tied to the embedding. The files of such a model
may hold it all the same."""


class Attend(Protocol):
    """Attention of the new queries over all keys."""

    def __call__(
        self,
        layer: int,
        q_NHD: Tensor,
        k_NKD: Tensor,
        v_NKD: Tensor,
        rows_S: Tensor | None = None,
    ) -> Tensor:
        """Attention output of one layer: for all tokens [N, H, D], or for those with index `rows_S`
        in ascending order [S, H, D]."""
        ...


class CausalModel(nn.Module):
    """A causal language model. Parameters are named as in transformers' modules.

    `forward` gives the hidden states that are asked for; `logits` is called separately."""

    shape: Architecture
    recomputed: int = 0
    """Blocks, from the first one on, whose activations the backward pass computes again."""
    selective: bool = False
    """Whether the other blocks keep results of matrix products and attention only. Needs
    `compiled`."""
    keeps_logits: bool = False
    """Whether there is memory for the logits of all tokens of a pass. Else they are computed chunk
    by chunk, and again in the backward pass."""
    compiled: bool = False
    """Whether torch.compile computes what is not attention. Set by `compile_parts`."""
    tied_names: frozenset[str] = frozenset()
    """Names in the state dict of weights that are another one's weight as well."""
    unread: tuple[str, ...] = (r"rotary_emb\.inv_freq$",)
    """Regular expressions of names in files that are not read: constants, such as frequencies and
    masks, that earlier versions of transformers saved."""
    transposed: frozenset[str] = frozenset()
    """Names of the weights of linear layers that are [inputs, outputs] (`Conv1D` of GPT-2)."""
    body_name: str = "model"
    """Name of the part that computes hidden states. The other parts are the head."""

    def forward(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, rows_S: Tensor | None = None
    ) -> Tensor:
        """Final hidden states [S, E] of the tokens with index `rows_S`, in ascending order, among
        `ids_N`, or [N, E] of all, given their positions in their sequences."""
        raise NotImplementedError

    def logits(self, x_NE: Tensor) -> Tensor:
        """Logits [N, V] of hidden states."""
        raise NotImplementedError

    @property
    def states_width(self) -> int:
        """Width of the final hidden states, E."""
        return self.shape.hidden

    def blocks(self) -> Iterable[nn.Module]:
        """The transformer blocks, which are divided over ranks one by one."""
        raise NotImplementedError

    def allocate(self, device: torch.device) -> None:
        """Allocate parameters that are on the meta device. Their values are undefined."""
        raise NotImplementedError

    def compile_parts(self) -> None:
        """Let torch.compile compute what is not attention, from the next pass on. Raises
        `ArchitectureError` if this model cannot be compiled."""
        raise ArchitectureError(
            "update.compile: only the families that AgentRL computes itself can be compiled, not a "
            "model of transformers; set it to false"
        )

    def saved(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The state dict `weights` in the form that transformers saves."""
        return weights

    def saved_name(self, name: str) -> str:
        """The name in files of transformers of the parameter `name`. Raises `ArchitectureError` if
        it is saved in another form."""
        return name

    def tied_copies(self) -> frozenset[str]:
        """Names in files of weights that are another one's weight as well. Files may hold them."""
        names = map(self.saved_name, self.tied_names)
        return frozenset([*names, TIED_HEAD] if self.shape.tied else names)

    def is_unread(self, name: str) -> bool:
        """Whether files may hold `name`, which is not read: a copy or a constant."""
        return name in self.tied_copies() or any(re.search(one, name) for one in self.unread)

    def saved_buffers(self) -> dict[str, Tensor]:
        """The buffers that are in the files of a model, by name. They are not trained."""
        saved = self.state_dict().keys()
        return {name: buffer for name, buffer in self.named_buffers() if name in saved}

    @property
    def device(self) -> torch.device:
        """The device that holds the weights."""
        return next(self.parameters()).device
