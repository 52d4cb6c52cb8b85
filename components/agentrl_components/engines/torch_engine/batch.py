"""Layout of one forward pass of the torch engine.

Legend: N packed new tokens, B rows, L new tokens of a row (padded), T keys, W keys that are
written, C sessions with the same tokens as a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ZERO, MINUS_INFINITY = np.float32(0), np.float32(-np.inf)

MAX_PADDED_ROWS_RATIO = 1.5
"""Padding rows are added up to this factor if that avoids copying the keys of all rows."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows with similar numbers of new tokens, in the order of their cache slots."""

    slots_B: slice | NDArray[np.int64]
    """Cache slots; a slice if they are contiguous."""
    places_BL: NDArray[np.int64]
    """Index of each new token among the packed tokens; padding repeats the row's last one."""
    mask_BLT: NDArray[np.float32]
    """0 for the keys that a token attends to, and -inf for others."""
    real_BL: NDArray[np.bool_]
    """False for padding."""


class Batch:
    """New tokens of all rows, packed one after another."""

    def __init__(
        self,
        *,
        sizes_B: NDArray[np.int64],
        starts_B: NDArray[np.int64],
        slots_B: NDArray[np.int64],
        copies: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        """
        Args:
            sizes_B: new tokens of each row.
            starts_B: cached tokens of each row.
            slots_B: cache slot of each row.
            copies: rows [C] whose keys are written to another slot, too, and these slots [C].
        """
        self._sizes, self._starts, self._slots = sizes_B, starts_B, slots_B
        self._ends = sizes_B.cumsum()
        self._firsts = self._ends - sizes_B
        self._keys = starts_B + sizes_B
        self.size = int(self._ends[-1])
        """Number of tokens, N."""
        self.slots = int(max(slots_B.max(), copies[1].max(initial=0))) + 1
        """Number of slots that the cache needs."""
        self.tokens = int(self._keys.max())
        """Number of tokens that each slot of the cache needs."""
        self.positions_N = np.arange(self.size) + np.repeat(starts_B - self._firsts, sizes_B)
        """Position of each token in its session."""
        self.slots_N = np.repeat(slots_B, sizes_B)
        """Cache slot of each token."""
        self.last_B = self._ends - 1
        """Index of each row's last token."""
        self.tokens_W, self.slots_W = self._writes(*copies)
        """The tokens whose keys are written, and the slot of each."""

    def _writes(
        self, rows: NDArray[np.int64], slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All tokens and their slots, and after them those of `rows` again for `slots`."""
        sizes = self._sizes[rows]
        offsets = np.repeat(self._firsts[rows] - sizes.cumsum() + sizes, sizes)
        tokens = np.concatenate([np.arange(self.size), offsets + np.arange(len(offsets))])
        return tokens, np.concatenate([self.slots_N, np.repeat(slots, sizes)])

    def row_groups(self) -> Iterator[RowGroup]:
        """Rows grouped by their number of new tokens, rounded up to a power of two."""
        widths = 2 ** np.ceil(np.log2(self._sizes)).astype(np.int64)
        for width in sorted(set(widths.tolist())):
            yield self._group_of(np.flatnonzero(widths == width), width)

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


def contiguous(
    members: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], slice | NDArray[np.int64]]:
    """The rows `members` in the order of their slots, whether each is real, and their slots.

    If few unused slots lie between them, padding rows are inserted for those, so that the slots are
    a slice of the cache and no keys are copied. Results of padding rows are discarded."""
    members = members[slots[members].argsort()]
    first, last = int(slots[members[0]]), int(slots[members[-1]])
    span = last - first + 1
    if span > len(members) * MAX_PADDED_ROWS_RATIO:
        return members, np.ones(len(members), dtype=bool), slots[members]
    places = slots[members] - first
    rows, real = np.full(span, members[0]), np.zeros(span, dtype=bool)
    rows[places], real[places] = members, True
    return rows, real, slice(first, last + 1)
