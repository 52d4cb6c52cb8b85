"""What changed of a weight that an engine has.

Legend: C entries that changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = (1 << 31) - 1
"""Most entries of a weight that an index of 32 bits can tell apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightChange:
    """New values of some entries of a weight. The others keep theirs."""

    name: str
    """As transformers names the weight."""
    shape: tuple[int, ...]
    """Shape of the whole weight."""
    indices: Tensor  # [C] int32
    """Places of the entries in the flattened weight, ascending, each once."""
    values: Tensor  # [C]
    """Their new values, in the type of the weight."""

    @property
    def nbytes(self) -> int:
        """Bytes of indices and values."""
        return self.indices.nbytes + self.values.nbytes
