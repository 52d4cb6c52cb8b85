"""Forward passes of the built-in decoder: new tokens of all sessions packed in one row. Sessions
with the same tokens are computed once.

Legend: N packed new tokens, B rows, R distinct rows, L new tokens of a row (padded), Q = L x query
heads of a key head, T keys, V vocabulary, E hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.torch_engine.batch import Batch, RowGroup, activation_step
from agentrl_components.engines.torch_engine.equal_rows import EqualRows
from agentrl_components.engines.torch_engine.kv_cache import Bucket, CachedAttention, SlotCache
from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.engines.torch_engine.row_padding import row_counts
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder


class SlotPasses:
    """Implements `ForwardPasses` with a `Decoder` and a cache that all sessions share."""

    def __init__(self, decoder: CausalModel) -> None:
        assert isinstance(decoder, Decoder)
        self._decoder = decoder
        weight = decoder.model.embed_tokens.weight
        self._device, self._dtype = weight.device, weight.dtype
        shape = decoder.shape
        self._cache = SlotCache(
            shape.layers, shape.kv_heads, shape.head_width, weight.dtype, weight.device
        )
        self._kv_heads = shape.kv_heads
        self._group = shape.heads // shape.kv_heads
        self._rows = row_counts(shape, weight.dtype, weight.device).by(
            activation_step(shape.intermediate)
        )

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
            group=self._group,
            rows=self._rows,
        )
        self._cache.fit(batch.slots, batch.tokens)
        ids = np.zeros(batch.size, dtype=np.int64)
        ids[: batch.real] = np.concatenate(fresh)
        hidden_NE = self._decoder(
            self._tensor(ids),
            self._tensor(batch.positions_N),
            CachedAttention(
                self._cache,
                self._tensor(batch.places(self._kv_heads, self._cache.tokens)),
                self._tensor(batch.sources(self._kv_heads)) if len(rows.repeats_C) else None,
                [self._bucket(group) for group in batch.row_groups()],
            ),
        )
        logits_RV = self._decoder.logits(hidden_NE.index_select(0, self._tensor(batch.last_B)))
        if not len(rows.repeats_C):
            return logits_RV
        padding = self._rows.padded(len(sessions)) - len(sessions)
        return logits_RV.index_select(0, self._tensor(np.pad(rows.rows_B, (0, padding), "edge")))

    def release(self, slot: int) -> None:
        """As `ForwardPasses.release`. The slot's keys are overwritten by its next session."""

    def _bucket(self, rows: RowGroup) -> Bucket:
        slots = rows.slots_B
        return Bucket(
            slots_B=slots if isinstance(slots, slice) else self._tensor(slots),
            places_BL=self._tensor(rows.places_BL),
            mask_B1QT=self._tensor(np.tile(rows.mask_BLT, (1, self._group, 1))[:, None]).to(
                self._dtype
            ),
            rows_N=self._tensor(rows.places_BL[rows.real_BL]),
            picks_N=self._tensor(np.flatnonzero(rows.real_BL.reshape(-1))),
        )

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
