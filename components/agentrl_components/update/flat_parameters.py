"""A module's trainable parameters as one vector that several processes share.

The module of every process is a view of the same memory, so an optimizer step on the vector updates
all of them and no weights are sent. Gradients use a vector of the same layout per lane. A module in
bfloat16 keeps its own copy of the weights in each process; the shared float32 vector holds the
master weights.

Legend: P trainable parameters.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agentrl_components.errors import RunError

LANES = 2
"""Partial sums of a mini-batch's gradient. Fixed, so that the result does not depend on the number
of processes."""
SHARED_MEMORY = "/dev/shm"
"""Where Linux has shared memory. In a container it has 64 MB, unless more is asked for."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Vectors in shared memory."""

    vector: Tensor
    """Float32 master weights [P]."""
    lanes: tuple[Tensor, ...]
    """Float32 gradients [P], one per lane."""
    reference: Tensor | None = None
    """Float32 weights [P] of the reference policy, if there is a KL penalty."""


class FlatParameters:
    """Views of one float32 vector [P] for the trainable parameters of a module."""

    def __init__(
        self, module: nn.Module, shared: Shared | None = None, *, reference: bool = False
    ) -> None:
        """With `shared`, the module takes its weights. Without, the vectors are created from the
        module's weights, in shared memory on CPU; with `reference` also those of a reference.

        Raises:
            RunError: there is too little shared memory.
        """
        self._named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if shared is None:
            vector = torch.cat([p.detach().float().reshape(-1) for _, p in self._named])
            copy = vector.clone() if reference else None
            shared = Shared(vector, tuple(torch.zeros_like(vector) for _ in range(LANES)), copy)
            if vector.device.type == "cpu":
                _share([vector, *shared.lanes, *([] if copy is None else [copy])])
        self.shared = shared
        self._views = self.split(shared.vector)
        dtypes = {p.dtype for _, p in self._named}
        self._is_view = dtypes <= {torch.float32}
        self.dtype = dtypes.pop() if len(dtypes) == 1 else torch.float32
        """Type of the module's weights: the vector rounded to it gives the same module."""
        if self._is_view:
            for (_, parameter), view in zip(self._named, self._views.values(), strict=True):
                parameter.data = view
        self.refresh()

    def split(self, vector_P: Tensor) -> dict[str, Tensor]:
        """Views of a vector [P] by parameter name, in the parameters' shapes."""
        out, offset = {}, 0
        for name, parameter in self._named:
            out[name] = vector_P[offset : offset + parameter.numel()].view(parameter.shape)
            offset += parameter.numel()
        return out

    def matrices(self) -> list[Tensor]:
        """Views of the master weights that weight decay applies to: those of parameters with two or
        more dimensions, which excludes norms and biases."""
        return [view for view in self._views.values() if view.dim() >= 2]

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the master weights into a bfloat16 module. A float32 module is a view of them."""
        if not self._is_view:
            for (_, parameter), view in zip(self._named, self._views.values(), strict=True):
                parameter.copy_(view)

    def gradients_into(self, vector_P: Tensor) -> None:
        """Make backward passes add to `vector_P`. A bfloat16 module needs `collect` after each."""
        if self._is_view:
            views = self.split(vector_P)
            for name, parameter in self._named:
                parameter.grad = views[name]

    @torch.no_grad()
    def collect(self, vector_P: Tensor) -> None:
        """Add bfloat16 gradients to `vector_P` in float32, and clear them."""
        if not self._is_view:
            for (_, parameter), view in zip(
                self._named, self.split(vector_P).values(), strict=True
            ):
                if parameter.grad is not None:
                    view += parameter.grad
                    parameter.grad = None


def _share(tensors: Sequence[Tensor]) -> None:
    """Move tensors to shared memory."""
    try:
        for tensor in tensors:
            tensor.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        needed = sum(tensor.nbytes for tensor in tensors) / 1e6
        size = shutil.disk_usage(SHARED_MEMORY).total / 1e6
        raise RunError(
            f"the model's weights and gradients need {needed:,.0f} MB of shared memory, and "
            f"{SHARED_MEMORY} has {size:,.0f} MB, not all of it free ({error}); give the container "
            "more (--shm-size with Docker, an emptyDir with medium: Memory on Kubernetes)"
        ) from error
