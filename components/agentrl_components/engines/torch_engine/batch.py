"""Layout of one forward pass of the torch engine.

Shapes are padded so that every number of a row is computed by the same kernel code, whatever else
is in the batch (docs/determinism.md).

Legend: N packed new tokens, B rows, L new tokens of a row (padded), T keys, K key heads, W = keys
that are written, C sessions with the same tokens as a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrl_components.engines.torch_engine.row_padding import RowCounts

MIN_QUERIES = 4
"""With fewer queries per key head another matrix kernel is used, whose bits differ."""
ONE_BLOCK = 192
"""Matrix products sum up to this many keys in one block. Beyond it, the block boundaries depend on
the number of keys, so rows share an attention call only with rows of the same (padded) number."""
MANY_QUERIES = 192
"""From this many queries per key head on, attention uses larger blocks, and with AVX2 the block
boundaries depend on the number of keys even below `ONE_BLOCK`."""
VECTOR = 64
"""Elements per vectorised step of activation functions. A remainder is computed by scalar code,
whose bits differ, so the packed tokens are padded until there is none. Models with common
feed-forward widths need no padding."""
KEY_STEP = 16
"""The key axis of attention is padded to a multiple of this, because the exponential of a remainder
is computed by scalar code, whose bits differ."""

ZERO, MINUS_INFINITY = np.float32(0), np.float32(-np.inf)

MAX_ROWS_PER_REAL_ROW = 1.5
"""Padding rows are added up to this factor if that avoids copying the keys of all rows."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows with similar numbers of new tokens and keys, in the order of their cache slots."""

    slots_B: slice | NDArray[np.int64]
    """Cache slots; a slice if they are contiguous."""
    places_BL: NDArray[np.int64]
    """Index of each new token among the packed tokens; padding repeats the row's last one."""
    mask_BLT: NDArray[np.float32]
    """0 for the keys that a token attends to, and -inf for others."""
    real_BL: NDArray[np.bool_]
    """False for padding."""


class Batch:
    """New tokens of all rows, packed one after another and padded."""

    def __init__(
        self,
        *,
        sizes_B: NDArray[np.int64],
        starts_B: NDArray[np.int64],
        slots_B: NDArray[np.int64],
        copies: tuple[NDArray[np.int64], NDArray[np.int64]],
        group: int,
        rows: RowCounts,
    ) -> None:
        """
        Args:
            sizes_B: new tokens of each row.
            starts_B: cached tokens of each row.
            slots_B: cache slot of each row.
            copies: rows [C] whose keys are written to another slot, too, and these slots [C].
            group: query heads per key head.
            rows: permitted row counts; the packed tokens and the last tokens are padded to them.
        """
        self._sizes, self._starts, self._slots, self._group = sizes_B, starts_B, slots_B, group
        self._ends = sizes_B.cumsum()
        self._firsts = self._ends - sizes_B
        self._keys = key_widths(starts_B + sizes_B)
        self.real = int(self._ends[-1])
        """Number of tokens that are not padding; these come first."""
        self.size = rows.padded(self.real)
        """Number of tokens with padding, N."""
        self.slots = int(max(slots_B.max(), copies[1].max(initial=0))) + 1
        """Number of slots that the cache needs."""
        self.tokens = int(self._keys.max())
        """Number of tokens that each slot of the cache needs."""
        self.positions_N = np.zeros(self.size, dtype=np.int64)
        """Position of each token in its session."""
        offsets = np.repeat(starts_B - self._firsts, sizes_B)
        self.positions_N[: self.real] = np.arange(self.real) + offsets
        padding = rows.padded(len(sizes_B)) - len(sizes_B)
        self.last_B = np.concatenate([self._ends - 1, np.full(padding, self.real - 1)])
        """Index of each row's last token; padding repeats the last row's."""
        self._written, self._written_slots = self._writes(*copies)

    def places(self, kv_heads: int, slot_tokens: int) -> NDArray[np.int64]:
        """Index [W] in a cache [S, K, T] with `slot_tokens` tokens per slot of each key that is
        written. Padding is written to slot 0, which no session uses."""
        firsts = self._written_slots * kv_heads * slot_tokens
        places = firsts + self.positions_N[self._written]
        return (places[:, None] + np.arange(kv_heads) * slot_tokens).reshape(-1)

    def sources(self, kv_heads: int) -> NDArray[np.int64]:
        """Index [W] in the packed tokens' keys [N, K] of each key that is written."""
        return (self._written[:, None] * kv_heads + np.arange(kv_heads)).reshape(-1)

    def _writes(
        self, rows: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The packed tokens whose keys are written, and the slot of each: all of them, and after
        them those of `rows` again for `slots`."""
        own = np.zeros(self.size, dtype=np.int64)
        own[: self.real] = np.repeat(self._slots, self._sizes)
        sizes = self._sizes[rows]
        offsets = np.repeat(self._firsts[rows] - sizes.cumsum() + sizes, sizes)
        copied = offsets + np.arange(len(offsets))
        tokens = np.concatenate([np.arange(self.size), copied])
        return tokens, np.concatenate([own, np.repeat(slots, sizes)])

    def row_groups(self) -> Iterator[RowGroup]:
        """Rows grouped by their number of new tokens, rounded up to a power of two, and by their
        number of keys where it affects the bits."""
        least = -(-MIN_QUERIES // self._group)
        widths = np.maximum(least, 2 ** np.ceil(np.log2(self._sizes)).astype(np.int64))
        free = (self._keys <= ONE_BLOCK) & (widths * self._group < MANY_QUERIES)
        classes = np.where(free, ONE_BLOCK, self._keys)
        for width, kind in sorted(set(zip(widths.tolist(), classes.tolist(), strict=True))):
            yield self._group_of(np.flatnonzero((widths == width) & (classes == kind)), width)

    def _group_of(self, alike: NDArray[np.int64], width: int) -> RowGroup:
        members, real_B, slots_B = contiguous(alike, self._slots)
        offset_BL = np.minimum(np.arange(width)[None, :], self._sizes[members, None] - 1)
        position_BL = self._starts[members, None] + offset_BL
        seen = int(self._keys[alike].max())
        return RowGroup(
            slots_B=slots_B,
            places_BL=self._firsts[members, None] + offset_BL,
            mask_BLT=np.where(np.arange(seen) <= position_BL[:, :, None], ZERO, MINUS_INFINITY),
            real_BL=real_B[:, None] & (np.arange(width)[None, :] < self._sizes[members, None]),
        )


def activation_step(intermediate: int) -> int:
    """Smallest number of tokens whose activations fill whole vectorised steps, for feed-forward
    layers of width `intermediate`."""
    return VECTOR // math.gcd(VECTOR, intermediate)


def contiguous(
    members: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], slice | NDArray[np.int64]]:
    """The rows `members` in the order of their slots, whether each is real, and their slots.

    If few unused slots lie between them, padding rows are inserted for those, so that the slots are
    a slice of the cache and no keys are copied. Results of padding rows are discarded."""
    members = members[slots[members].argsort()]
    first, last = int(slots[members[0]]), int(slots[members[-1]])
    span = last - first + 1
    if span > len(members) * MAX_ROWS_PER_REAL_ROW:
        return members, np.ones(len(members), dtype=bool), slots[members]
    places = slots[members] - first
    rows, real = np.full(span, members[0]), np.zeros(span, dtype=bool)
    rows[places], real[places] = members, True
    return rows, real, slice(first, last + 1)


def key_widths(tokens_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """Padded length of the key axis [B] for rows of `tokens_B` keys: a multiple of `KEY_STEP` up to
    `ONE_BLOCK`, then the next of 256, 384, 512, 768, 1024, ..."""
    near_B = -(-tokens_B // KEY_STEP) * KEY_STEP
    power_B = 2 ** np.ceil(np.log2(tokens_B)).astype(np.int64)
    wide_B = np.where(tokens_B <= power_B // 4 * 3, power_B // 4 * 3, power_B)
    return np.where(tokens_B <= ONE_BLOCK, near_B, wide_B)
