"""One optimizer step from the gradients of all lanes.

Legend: P trainable parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from agentrl_components.errors import StoreError
from agentrl_components.spec import Update
from agentrl_components.storage import keys, tensors
from agentrl_components.storage.files import Files
from agentrl_components.update.adamw import AdamW
from agentrl_components.update.flat_parameters import FlatParameters


class Optimizer:
    """AdamW over a master vector [P] whose gradient is summed over lanes."""

    def __init__(self, flat: FlatParameters, update: Update) -> None:
        self._shared = flat.shared
        self.adamw = AdamW(
            flat.shared.vector,
            beta2=update.beta2,
            weight_decay=update.weight_decay,
            decayed=flat.matrices(),
        )
        self._max_grad_norm = update.max_grad_norm

    def step(self, learning_rate: float) -> float:
        """Sum the lanes' gradients, clip the sum's norm and update the vector in place.

        Returns the norm before clipping. If it is not finite, nothing is updated."""
        gradient_P = self._shared.lanes[0].clone()
        for lane_P in self._shared.lanes[1:]:
            gradient_P += lane_P
        norm = float(torch.linalg.vector_norm(gradient_P))
        if not math.isfinite(norm):
            return norm
        gradient_P *= min(1.0, self._max_grad_norm / (norm + 1e-6))
        self.adamw.step(gradient_P, learning_rate)
        return norm

    def clear_moments(self) -> None:
        """Reset AdamW's moments, as needed when the objective changes."""
        self.adamw.clear()

    def state(self, name: str, spool: Path | None = None) -> Files:
        """Master weights and moments as files of a checkpoint: in the folder `spool`, or in memory
        without one."""
        master = f"{keys.TRAINER}{name}-master.safetensors"
        return tensors.pack_optimizer(self.adamw.state_dict(), name, spool) | {
            master: tensors.pack({"vector": self._shared.vector}, master, spool)
        }

    @torch.no_grad()
    def restore(self, files: Mapping[str, bytes | Path], name: str) -> None:
        """Load what `state` returned. Weights are copied in place, so every process has them."""
        self._shared.vector.copy_(saved_weights(files, name))
        self.adamw.load_state_dict(tensors.unpack_optimizer(files, name))


def saved_weights(files: Mapping[str, bytes | Path], name: str) -> Tensor:
    """The master weights [P] in files that `Optimizer.state` returned. Raises `StoreError` for the
    files of trainers on Ray."""
    master = f"{keys.TRAINER}{name}-master.safetensors"
    if master not in files:
        raise StoreError(
            f"the checkpoint has no {master}: it was written with spec.compute.ray; go on with "
            "compute.ray, or start a new run from the checkpoint's folder with model.source"
        )
    return tensors.unpack(files[master])["vector"]
