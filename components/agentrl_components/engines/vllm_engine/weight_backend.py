"""The weight transfer of this project's vLLM engines: vLLM's NCCL backend, which also takes weights
from the call itself.

vLLM's own backends need GPUs. On CPUs, and for an engine that joins when the others have their
weights already, `update_weights` brings a bucket of weights as an argument. Both ways load a bucket
into the layers that it completes, so an engine never holds more than its own weights and a bucket.

Either way may bring changes of some entries in the place of weights. They are written into the
layers by vLLM's `load_checkpoint_weight_patches`, which needs layers that keep the layout of the
checkpoint: on CPUs they do not.

vLLM imports this module in each of its worker processes, as `worker_extension_cls`, before it
creates the backend.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine
from vllm.distributed.weight_transfer.sparse_nccl_engine import SparseNCCLWeightTransferEngine
from vllm.model_executor.model_loader.checkpoint_weight_patch import (
    CheckpointWeightPatch,
    load_checkpoint_weight_patches,
)

from agentrl_components.engines.weight_change import WeightChange

BACKEND = "agentrl"
WEIGHTS = "weights"
"""Key of an `update_weights` call that brings (name, tensor) pairs."""
CHANGES = "changes"
"""Key of an `update_weights` call that brings `WeightChange`s."""
COUNTS = "num_updates_list"
"""Key of an `update_weights` call that describes changes which come over NCCL."""


class WeightBackend(NCCLWeightTransferEngine):  # type: ignore[misc]
    """One worker's part of the transfer."""

    _reloads = False
    """Whether the update under way brings all weights: vLLM then loads them layer by layer."""

    def start_weight_update(self) -> None:
        """Nothing: what comes first says whether the update brings weights or changes."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load the weights or changes that the call brings, or receive them from the trainer over
        NCCL."""
        if CHANGES in update_info:
            patches = [self._patch(change) for change in update_info[CHANGES]]
            load_checkpoint_weight_patches(self.model, patches)
            return
        if COUNTS in update_info:
            self._sparse().update_weights(update_info)
            return
        if not self._reloads:
            super().start_weight_update()
            self._reloads = True
        if WEIGHTS in update_info:
            self.model.load_weights(update_info[WEIGHTS])
        else:
            super().update_weights(update_info)

    def finish_weight_update(self) -> None:
        """Finish loading."""
        if self._reloads:
            super().finish_weight_update()
            self._reloads = False
        repack_head(self.model)

    def _patch(self, change: WeightChange) -> CheckpointWeightPatch:
        """A change in vLLM's words, on this worker's device."""
        return CheckpointWeightPatch(
            name=change.name,
            shape=change.shape,
            dtype=change.values.dtype,
            values=change.values.to(self.device),
            indices=change.indices.to(self.device),
        )

    def _sparse(self) -> SparseNCCLWeightTransferEngine:
        """vLLM's engine for changes, in the process group of this one."""
        engine = SparseNCCLWeightTransferEngine(
            self.config, self.vllm_config, self.device, self.model
        )
        engine.model_update_group = self.model_update_group
        return engine


class Registration:
    """Adds nothing to a worker: it exists so that vLLM imports this module."""


def repack_head(model: torch.nn.Module) -> None:
    """Repack a head that is tied to the embedding. Loading skips it, so on CPU it would keep the
    packed copy of the old weights."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)


WeightTransferEngineFactory.register_engine(BACKEND, WeightBackend)
