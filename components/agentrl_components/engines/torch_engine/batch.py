"""The rows of one forward pass of the torch engine: which tokens go where.

Shapes are padded until every number of a row is computed by the same code, whatever else is in the
batch; `torch_engine.py` says why.

Legend: N packed new tokens, B rows, L queries of a row, T keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrl_components.engines.torch_engine.row_padding import Rows

FEWEST_QUERIES = 4
"""Fewer queries of a key head take another matrix kernel, whose bits differ."""
ONE_BLOCK = 192
"""Matrix products sum up to so many keys in one go. Where there are more, where the sum is cut
depends on their number, so rows share an attention call only with rows of as many."""
MANY_QUERIES = 192
"""From so many queries of a key head on, attention is computed in larger pieces, and with AVX2 the
number of keys tells where sums over them are cut even where there are few."""
VECTOR = 64
"""Activations are computed so many at a time, what is left over by scalar code, whose bits differ;
the packed tokens are padded until nothing is left over. No padding for usual models."""
KEY_STEP = 16
"""Attention's key axis is padded to a multiple of this: the last few keys of another length would
be exponentiated by scalar code, whose bits differ."""

MOST_IDLE = 1.5
"""Rows computed for each real one at most, where that saves copying the keys of all."""


@dataclass(frozen=True, slots=True)
class Likes:
    """Rows with like numbers of new tokens and of keys, in the order of their slots."""

    slots_B: slice | NDArray[np.int64]
    """Where their keys are; a slice where they are neighbours."""
    places_BL: NDArray[np.int64]
    """Of each query among the packed tokens; padding repeats a row's last one."""
    mask_BLT: NDArray[np.bool_]
    """Which keys a query sees."""
    real_BL: NDArray[np.bool_]
    """Which queries are not padding."""


class Batch:
    """Rows of new tokens, packed one after another and padded to whole steps."""

    def __init__(
        self,
        *,
        sizes_B: NDArray[np.int64],
        starts_B: NDArray[np.int64],
        slots_B: NDArray[np.int64],
        group: int,
        rows: Rows,
    ) -> None:
        """`sizes_B` new tokens after `starts_B` cached ones, by row; `group` query heads for each
        key head; tokens, and last tokens, are padded to numbers of `rows`."""
        self._sizes, self._starts, self._slots, self._group = sizes_B, starts_B, slots_B, group
        self._ends = sizes_B.cumsum()
        self._firsts = self._ends - sizes_B
        self._keys = key_widths(starts_B + sizes_B)
        self.real = int(self._ends[-1])
        """Tokens that are not padding; they come first."""
        self.size = rows.padded(self.real)
        """Tokens, N."""
        self.slots = int(slots_B.max()) + 1
        """Slots that the cache must have."""
        self.tokens = int(self._keys.max())
        """Tokens that the cache must have room for in each slot."""
        self.positions_N = np.zeros(self.size, dtype=np.int64)
        """Of each token in its session."""
        offsets = np.repeat(starts_B - self._firsts, sizes_B)
        self.positions_N[: self.real] = np.arange(self.real) + offsets
        spare = rows.padded(len(sizes_B)) - len(sizes_B)
        self.last_B = np.concatenate([self._ends - 1, np.full(spare, self.real - 1)])
        """The place of each row's last token, and again of the last row's."""

    def places(self, slot_tokens: int) -> NDArray[np.int64]:
        """Where each token's key goes [N] in a cache of so many tokens a slot. Padding goes to
        slot 0, which is nobody's."""
        places_N = np.arange(-self.real, self.size - self.real)
        rows = np.repeat(self._slots, self._sizes) * slot_tokens
        places_N[: self.real] = rows + self.positions_N[: self.real]
        return places_N

    def likes(self) -> Iterator[Likes]:
        """Rows grouped by new tokens, to the next power of two, so that little is padded, and by
        keys where there are many."""
        least = -(-FEWEST_QUERIES // self._group)
        widths = np.maximum(least, 2 ** np.ceil(np.log2(self._sizes)).astype(np.int64))
        free = (self._keys <= ONE_BLOCK) & (widths * self._group < MANY_QUERIES)
        classes = np.where(free, ONE_BLOCK, self._keys)
        for width, kind in sorted(set(zip(widths.tolist(), classes.tolist(), strict=True))):
            yield self._alike(np.flatnonzero((widths == width) & (classes == kind)), width)

    def _alike(self, alike: NDArray[np.int64], width: int) -> Likes:
        members, real_B, slots_B = neighbours(alike, self._slots)
        offset_BL = np.minimum(np.arange(width)[None, :], self._sizes[members, None] - 1)
        position_BL = self._starts[members, None] + offset_BL
        seen = int(self._keys[alike].max())
        return Likes(
            slots_B=slots_B,
            places_BL=self._firsts[members, None] + offset_BL,
            mask_BLT=np.arange(seen)[None, None, :] <= position_BL[:, :, None],
            real_BL=real_B[:, None] & (np.arange(width)[None, :] < self._sizes[members, None]),
        )


def activation_step(intermediate: int) -> int:
    """Tokens come in multiples of so many, for a model whose feed-forward layers are this wide."""
    return VECTOR // math.gcd(VECTOR, intermediate)


def neighbours(
    members: NDArray[np.int64], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], slice | NDArray[np.int64]]:
    """The rows `members` in the order of their slots, which of them are real, and the slots.

    Where few slots lie idle between them, rows for those are put in, so that the slots are a slice
    of the cache and no key is copied; what such a row computes is thrown away."""
    members = members[slots[members].argsort()]
    first, last = int(slots[members[0]]), int(slots[members[-1]])
    span = last - first + 1
    if span > len(members) * MOST_IDLE:
        return members, np.ones(len(members), dtype=bool), slots[members]
    places = slots[members] - first
    rows, real = np.full(span, members[0]), np.zeros(span, dtype=bool)
    rows[places], real[places] = members, True
    return rows, real, slice(first, last + 1)


def key_widths(tokens_B: NDArray[np.int64]) -> NDArray[np.int64]:
    """How long the key axis [B] of a row of so many tokens is: a multiple of `KEY_STEP` up to
    `ONE_BLOCK`, then the next of 256, 384, 512, 768, 1024, ..."""
    near_B = -(-tokens_B // KEY_STEP) * KEY_STEP
    power_B = 2 ** np.ceil(np.log2(tokens_B)).astype(np.int64)
    wide_B = np.where(tokens_B <= power_B // 4 * 3, power_B // 4 * 3, power_B)
    return np.where(tokens_B <= ONE_BLOCK, near_B, wide_B)
