"""Key-value cache of the torch engine.

Legend: K key heads, D head width, S cache slots, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

BLOCK = 64
"""A slot holds whole blocks of so many tokens."""
Shape = tuple[int, int, int, int]


class SlotCache:
    """Keys and values of S sessions with up to T tokens each. Grows by doubling.

    All keys of a head follow one another, because attention reads them head by head. On CPU, the
    keys of a block are the columns of a matrix (`k_blocks`)."""

    def __init__(
        self, layers: int, kv_heads: int, width: int, allocate: Callable[[Shape], Tensor]
    ) -> None:
        """`allocate` makes the memory for a layer's keys, or values, [S, K, T, D]."""
        self._allocate = allocate
        self._kv_heads, self._width = kv_heads, width
        self.slots = self.tokens = 0
        self.k = [allocate((0, kv_heads, 0, width))] * layers
        self.v = list(self.k)

    def fit(self, slots: int, tokens: int) -> None:
        """Grow the cache to at least `slots` slots of `tokens` tokens."""
        if slots <= self.slots and tokens <= self.tokens:
            return
        wide = self.slots if slots <= self.slots else max(8, 2 * self.slots, slots)
        long = self.tokens if tokens <= self.tokens else max(2 * self.tokens, tokens)
        long = -(-long // BLOCK) * BLOCK
        for held in (self.k, self.v):
            for i, old in enumerate(held):
                grown = self._allocate((wide, self._kv_heads, long, self._width))
                grown[: self.slots, :, : self.tokens] = old
                held[i] = grown
        self.slots, self.tokens = wide, long

    def k_blocks(self, layer: int) -> Tensor:
        """Keys of a layer [S, K, T / BLOCK, D, BLOCK], in the memory of `k`."""
        return self.k[layer].view(self.slots, self._kv_heads, -1, self._width, BLOCK)


def untouched(shape: Shape) -> Tensor:
    """float32 memory of the host with undefined values. What is never written takes no memory."""
    return torch.empty(shape, dtype=torch.float32)


def zeros(dtype: torch.dtype, device: torch.device) -> Callable[[Shape], Tensor]:
    """Makes memory of zeros on a device, for an attention that multiplies unused values by 0."""
    return lambda shape: torch.zeros(shape, dtype=dtype, device=device)
