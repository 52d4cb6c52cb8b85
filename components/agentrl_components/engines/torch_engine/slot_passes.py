"""Forward passes of the built-in decoder: new tokens of all sessions packed in one row. Sessions
with the same tokens are computed once.

Legend: N packed new tokens, B rows, R distinct rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.torch_engine.batch import Batch
from agentrl_components.engines.torch_engine.equal_rows import EqualRows
from agentrl_components.engines.torch_engine.kv_cache import SlotCache, untouched, zeros
from agentrl_components.engines.torch_engine.masked_attention import MaskedAttention
from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder


class SlotPasses:
    """Implements `ForwardPasses` with a `Decoder` and a cache that all sessions share."""

    def __init__(self, decoder: CausalModel, *, kernels: bool | None = None) -> None:
        """`kernels`: by functions that are compiled for CPUs (`kernels/forward.py`); None: on
        CPU."""
        assert isinstance(decoder, Decoder)
        self._decoder = decoder
        shape, weight = decoder.shape, decoder.model.embed_tokens.weight
        self._device = weight.device
        kernels = weight.device.type == "cpu" if kernels is None else kernels
        memory = untouched if kernels else zeros(weight.dtype, weight.device)
        self._cache = SlotCache(shape.layers, shape.kv_heads, shape.head_width, memory)
        self._group = shape.heads // shape.kv_heads
        self._kernels = None
        if kernels:
            # Numba takes time to import, and only passes on CPU need it.
            from agentrl_components.engines.torch_engine.kernels.forward import KernelForward

            self._kernels = KernelForward(decoder, self._cache)

    def logits(self, fresh: Sequence[Sequence[int]], sessions: Sequence[Session]) -> Tensor:
        """As `ForwardPasses.logits`."""
        rows = EqualRows(fresh, sessions)
        slots_B = np.array([session.slot for session in sessions])
        fresh = [fresh[row] for row in rows.firsts_R]
        batch = Batch(
            sizes_B=np.array([len(ids) for ids in fresh]),
            starts_B=np.array([sessions[row].cached for row in rows.firsts_R]),
            slots_B=slots_B[rows.firsts_R],
            copies=(rows.rows_B[rows.repeats_C], slots_B[rows.repeats_C]),
        )
        self._cache.fit(batch.slots, batch.tokens)
        ids_N = self._tensor(np.concatenate(fresh, dtype=np.int64))
        logits_RV = self._distinct_logits(ids_N, batch)
        if not len(rows.repeats_C):
            return logits_RV
        return logits_RV.index_select(0, self._tensor(rows.rows_B))

    def release(self, slot: int) -> None:
        """As `ForwardPasses.release`. The slot's keys are overwritten by its next session."""

    def forget_weights(self) -> None:
        """As `ForwardPasses.forget_weights`."""
        if self._kernels is not None:
            self._kernels.forget_weights()

    def _distinct_logits(self, ids_N: Tensor, batch: Batch) -> Tensor:
        """Logits [R, V] after the last token of each distinct row."""
        if self._kernels is not None:
            return self._kernels(ids_N, batch)
        attention = MaskedAttention(self._cache, batch, self._group)
        places = (self._tensor(batch.positions_N), attention, self._tensor(batch.last_B))
        return self._decoder.logits(self._decoder(ids_N, *places))

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
