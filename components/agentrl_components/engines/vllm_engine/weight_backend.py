"""The weight transfer of this project's vLLM engines: vLLM's NCCL backend, which also takes weights
from the call itself.

vLLM's own backends need GPUs. On CPUs, and for an engine that joins when the others have their
weights already, `update_weights` brings a bucket of weights as an argument. Both ways load a bucket
into the layers that it completes, so an engine never holds more than its own weights and a bucket.

vLLM imports this module in each of its worker processes, as `worker_extension_cls`, before it
creates the backend.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine

BACKEND = "agentrl"
WEIGHTS = "weights"
"""Key of an `update_weights` call that brings (name, tensor) pairs."""


class WeightBackend(NCCLWeightTransferEngine):  # type: ignore[misc]
    """One worker's part of the transfer."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load the weights that the call brings, or receive them from the trainer over NCCL."""
        if WEIGHTS in update_info:
            self.model.load_weights(update_info[WEIGHTS])
        else:
            super().update_weights(update_info)

    def finish_weight_update(self) -> None:
        """Finish loading."""
        super().finish_weight_update()
        repack_head(self.model)


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
