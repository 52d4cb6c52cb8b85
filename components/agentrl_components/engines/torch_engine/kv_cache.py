"""Key-value cache of the torch engine, and attention over it.

Legend: N packed new tokens, B rows, L new tokens of a row (padded), T keys, H query heads, K key
heads, G = H / K, D head width, S cache slots, Q = G x L, P = B x L, W keys that are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


class SlotCache:
    """Keys and values of S sessions with up to T tokens each. Grows by doubling.

    All keys of a head follow one another, because attention reads them head by head."""

    def __init__(
        self, layers: int, kv_heads: int, width: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.slots = self.tokens = 0
        none_SKTD = torch.zeros(0, kv_heads, 0, width, dtype=dtype, device=device)
        self.k = [none_SKTD] * layers
        self.v = [none_SKTD] * layers

    def fit(self, slots: int, tokens: int) -> None:
        """Grow the cache to at least `slots` slots of `tokens` tokens."""
        if slots <= self.slots and tokens <= self.tokens:
            return
        wide = self.slots if slots <= self.slots else max(8, 2 * self.slots, slots)
        long = self.tokens if tokens <= self.tokens else max(64, 2 * self.tokens, tokens)
        for held in (self.k, self.v):
            for i, old in enumerate(held):
                grown = old.new_zeros(wide, old.shape[1], long, old.shape[3])
                grown[: self.slots, :, : self.tokens] = old
                held[i] = grown
        self.slots, self.tokens = wide, long


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
    rows_N: Tensor
    """Indices of this bucket's packed tokens..."""
    picks_N: Tensor
    """...and of their results in the flattened [B, L]."""


class CachedAttention:
    """Implements `decoder.Attend`: new tokens of many sessions are written to the cache and attend
    to all earlier tokens of their session."""

    def __init__(
        self,
        cache: SlotCache,
        places_W: Tensor,
        sources_W: Tensor | None,
        buckets: Sequence[Bucket],
    ) -> None:
        """`places_W`: index in the flattened [S, K, T] of each key that is written. `sources_W`:
        its index in the flattened new keys [N, K]; None: they are written in their order."""
        self._cache, self._buckets = cache, buckets
        self._places_W, self._sources_W = places_W, sources_W

    def __call__(self, layer: int, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor) -> Tensor:
        k_SKTD, v_SKTD = self._cache.k[layer], self._cache.v[layer]
        self._write(k_SKTD, k_NKD)
        self._write(v_SKTD, v_NKD)
        heads, width = q_NHD.shape[1:]
        kv_heads = k_NKD.shape[1]
        out_NHD = torch.empty_like(q_NHD)
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
            out_NHD.index_copy_(0, bucket.rows_N, out_PHD.index_select(0, bucket.picks_N))
        return out_NHD

    def _write(self, held_SKTD: Tensor, new_NKD: Tensor) -> None:
        new_WD = new_NKD.flatten(0, 1)
        if self._sources_W is not None:
            new_WD = new_WD.index_select(0, self._sources_W)
        held_SKTD.flatten(0, 2).index_copy_(0, self._places_W, new_WD)
