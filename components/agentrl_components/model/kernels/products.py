"""Products of small matrices for float32 on CPU, inside of compiled functions.

A call of torch's product costs more than a tile of attention takes. Every number is a sum in the
order of T that depends on nothing else, so it is the same for any number of rows.

Legend: I rows, T terms, J columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.tiles import LANES, tile

ROWS, COLUMNS = 4, 2 * LANES
"""Of the largest tile."""
LARGEST = tile(ROWS, 2)
EIGHT, FOUR, TWO = tile(1, 8), tile(1, 4), tile(1, 2)
"""Vectors of a single row."""


@compiled(FUSED)
def multiply(
    a_IT: NDArray[np.float32], b_TJ: NDArray[np.float32], c_IJ: NDArray[np.float32], add: bool
) -> None:
    """Set `c_IJ` to the product of `a_IT` and `b_TJ`, or `add` it to what is there. Rows of `b_TJ`
    and `c_IJ` are contiguous.

    Fastest where the rows are a multiple of `ROWS` and the columns of `COLUMNS`. A single row reads
    whole rows of `b_TJ`, as the processor fetches memory ahead."""
    rows, columns = c_IJ.shape
    whole = columns - columns % COLUMNS
    tiled = rows - rows % ROWS
    # All rows of a few columns: these columns of `b_TJ` stay in the processor's first cache.
    for j in range(0, whole, COLUMNS):
        for i in range(0, tiled, ROWS):
            LARGEST(a_IT[i:], b_TJ[:, j:], c_IJ[i:, j:], add)
    for i in range(tiled, rows):
        j = 0
        while j + 8 * LANES <= whole:
            EIGHT(a_IT[i:], b_TJ[:, j:], c_IJ[i:, j:], add)
            j += 8 * LANES
        while j + 4 * LANES <= whole:
            FOUR(a_IT[i:], b_TJ[:, j:], c_IJ[i:, j:], add)
            j += 4 * LANES
        if j < whole:
            TWO(a_IT[i:], b_TJ[:, j:], c_IJ[i:, j:], add)
    for j in range(whole, columns):
        for i in range(rows):
            total = c_IJ[i, j] if add else np.float32(0)
            for t in range(len(b_TJ)):
                total += a_IT[i, t] * b_TJ[t, j]
            c_IJ[i, j] = total
