"""Attention of the new tokens of many sessions to all earlier tokens of their session, on any
device.

Legend: N packed new tokens, B rows, L new tokens of a row (padded), R those that are not padding, T
keys, H query heads, K key heads, G = H / K, D head width, S cache slots, Q = G x L, P = B x L, W
keys that are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.torch_engine.batch import Batch, RowGroup
from agentrl_components.engines.torch_engine.kv_cache import SlotCache


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows of a forward pass that share one attention call: B rows padded to L new tokens."""

    slots_B: Tensor | slice
    """Cache slot of each row. A slice is read in place, without copying keys."""
    places_BL: Tensor
    """Index into the packed tokens; padding repeats the row's last token."""
    mask_B1QT: Tensor
    """0 for the keys that a query attends to, and -inf for others. The queries of the G heads that
    share a key head follow one another."""
    rows_R: Tensor
    """Indices of this bucket's packed tokens..."""
    picks_R: Tensor
    """...and of their results in the flattened [B, L]."""


class MaskedAttention:
    """Implements `causal_model.Attend` by torch's attention over padded rows: new tokens are
    written to the cache and attend to all earlier tokens of their session."""

    def __init__(self, cache: SlotCache, batch: Batch, group: int) -> None:
        """`group`: query heads of a key head, G."""
        self._cache, self._group = cache, group
        self._dtype, self._device = cache.k[0].dtype, cache.k[0].device
        self._tokens_W = self._tensor(batch.tokens_W)
        self._slots_W = self._tensor(batch.slots_W)
        self._positions_W = self._tensor(batch.positions_N[batch.tokens_W])
        self._buckets = [self._bucket(group) for group in batch.row_groups()]

    def __call__(
        self,
        layer: int,
        q_NHD: Tensor,
        k_NKD: Tensor,
        v_NKD: Tensor,
        rows_S: Tensor | None = None,
    ) -> Tensor:
        k_SKTD, v_SKTD = self._cache.k[layer], self._cache.v[layer]
        k_SKTD[self._slots_W, :, self._positions_W] = k_NKD[self._tokens_W]
        v_SKTD[self._slots_W, :, self._positions_W] = v_NKD[self._tokens_W]
        heads, width = q_NHD.shape[1:]
        kv_heads = k_NKD.shape[1]
        out_NHD = torch.zeros_like(q_NHD)
        for bucket in self._buckets:
            batch, queries = bucket.places_BL.shape
            seen = bucket.mask_B1QT.shape[-1]
            # Heads that share keys are folded into the query axis, so no keys are copied.
            q_BKQD = (
                q_NHD[bucket.places_BL]
                .view(batch, queries, kv_heads, heads // kv_heads, width)
                .permute(0, 2, 3, 1, 4)
                .reshape(batch, kv_heads, -1, width)
            )
            out_BKQD = F.scaled_dot_product_attention(
                q_BKQD,
                k_SKTD[bucket.slots_B, :, :seen],
                v_SKTD[bucket.slots_B, :, :seen],
                attn_mask=bucket.mask_B1QT,
            )
            out_PHD = (
                out_BKQD.view(batch, kv_heads, heads // kv_heads, queries, width)
                .permute(0, 3, 1, 2, 4)
                .reshape(-1, heads, width)
            )
            out_NHD.index_copy_(0, bucket.rows_R, out_PHD.index_select(0, bucket.picks_R))
        return out_NHD if rows_S is None else out_NHD.index_select(0, rows_S)

    def _bucket(self, rows: RowGroup) -> Bucket:
        slots = rows.slots_B
        return Bucket(
            slots_B=slots if isinstance(slots, slice) else self._tensor(slots),
            places_BL=self._tensor(rows.places_BL),
            mask_B1QT=self._tensor(np.tile(rows.mask_BLT, (1, self._group, 1))[:, None]).to(
                self._dtype
            ),
            rows_R=self._tensor(rows.places_BL[rows.real_BL]),
            picks_R=self._tensor(np.flatnonzero(rows.real_BL.reshape(-1))),
        )

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)
