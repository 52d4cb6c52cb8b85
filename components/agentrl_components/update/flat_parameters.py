"""A module's trainable parameters as one vector, which several processes can share.

Every process's module looks into the same memory: when the optimizer moves the vector, all of them
have the new weights, and nothing is sent. Each lane's gradients are such a vector too. Weights
held in bfloat16 keep a float32 master here and copies in each process.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

LANES = 2
"""Gradients of a mini-batch are summed in so many parts, however many processes there are."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What processes have in common."""

    vector: Tensor
    """Float32 master weights [P]."""
    lanes: tuple[Tensor, ...]
    """Float32 gradients [P], one for each lane."""


class FlatParameters:
    """Views of one float32 vector [P], laid over the trainable parameters of a module."""

    def __init__(self, module: nn.Module, shared: Shared | None = None) -> None:
        """Without `shared`: made from the module's weights, in memory that can be shared. With it:
        the module takes its weights."""
        self._named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if shared is None:
            vector = torch.cat([p.detach().float().reshape(-1) for _, p in self._named])
            shared = Shared(vector, tuple(torch.zeros_like(vector) for _ in range(LANES)))
            if vector.device.type == "cpu":
                for tensor in (vector, *shared.lanes):
                    tensor.share_memory_()  # type: ignore[no-untyped-call]
        self.shared = shared
        self._views = self.split(shared.vector)
        dtypes = {p.dtype for _, p in self._named}
        self._same = dtypes <= {torch.float32}
        self.dtype = dtypes.pop() if len(dtypes) == 1 else torch.float32
        """What the module holds of the vector: rounded to this, it gives the same module."""
        if self._same:
            for (_, parameter), view in zip(self._named, self._views.values(), strict=True):
                parameter.data = view
        self.refresh()

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """The parts of a vector [P], by parameter name, as views."""
        out, offset = {}, 0
        for name, parameter in self._named:
            out[name] = vector[offset : offset + parameter.numel()].view(parameter.shape)
            offset += parameter.numel()
        return out

    @torch.no_grad()
    def refresh(self) -> None:
        """Take the master's weights into copies that are not views of it."""
        if not self._same:
            for (_, parameter), view in zip(self._named, self._views.values(), strict=True):
                parameter.copy_(view)

    def gradients_into(self, vector: Tensor) -> None:
        """Let backward passes add to `vector` [P]; for bfloat16, call `collect` after each."""
        if self._same:
            views = self.split(vector)
            for name, parameter in self._named:
                parameter.grad = views[name]

    @torch.no_grad()
    def collect(self, vector: Tensor) -> None:
        """Add low-precision gradients to `vector` in float32 and clear them."""
        if not self._same:
            for (_, parameter), view in zip(self._named, self.split(vector).values(), strict=True):
                if parameter.grad is not None:
                    view += parameter.grad
                    parameter.grad = None
