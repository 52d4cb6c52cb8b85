"""Row counts for which matrix products are batch-invariant.

A linear algebra library chooses the kernel for a row by the number of rows, the row's position
among them and the processor: with AVX2, products are computed in tiles of 12 rows and another
kernel is used from 56 rows on; with AVX-512, 4 to 16 rows are needed. The row counts are therefore
measured on the machine, once per process, with the shapes of the model.

Legend: M rows, K inputs, N outputs.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from agentrl_components.model.architecture import Architecture

_LOG = logging.getLogger(__name__)
_COUNTS = (*range(1, 97), 128, 192, 256, 384)
"""Row counts that are tried: every position in a tile, and beyond every known threshold."""
_MAX_OUTPUTS = 256
"""Columns of the products that are tried. Kernels are chosen by rows and inputs only."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The row counts that products are padded to: multiples of `step` from `least` on."""

    least: int
    step: int

    def padded(self, rows: int) -> int:
        """The smallest permitted row count that is at least `rows`."""
        return -(-max(rows, self.least) // self.step) * self.step


ANY = RowCounts(1, 1)
CANDIDATES = (
    RowCounts(4, 1),
    RowCounts(8, 4),
    RowCounts(16, 1),
    RowCounts(24, 12),
    RowCounts(60, 12),
    RowCounts(96, 48),
)
"""In order of cost. Each is needed for some model on some processor."""


def row_counts(shape: Architecture, dtype: torch.dtype, device: torch.device) -> RowCounts:
    """Row counts for which the linear layers of a model are batch-invariant. `ANY` where there are
    none: on a GPU, and with several threads, which share the rows of a product."""
    if device.type != "cpu" or torch.get_num_threads() > 1:
        return ANY
    return measured_row_counts(frozenset(_products(shape)), dtype)


@functools.cache
def measured_row_counts(
    products: frozenset[tuple[int, int]],
    dtype: torch.dtype,
    candidates: tuple[RowCounts, ...] = CANDIDATES,
) -> RowCounts:
    """The first of `candidates` that is batch-invariant for all `products`, given as (inputs,
    outputs). If there is none, `ANY`, and a warning is logged."""
    for kind in candidates:
        if all(is_batch_invariant(kind, inputs, outputs, dtype) for inputs, outputs in products):
            return kind
    _LOG.warning(
        "on this processor the rounding of a row of %s depends on the number of rows: runs are not"
        " repeatable bit for bit",
        dtype,
    )
    return ANY


def is_batch_invariant(kind: RowCounts, inputs: int, outputs: int, dtype: torch.dtype) -> bool:
    """Whether equal rows have equal results at every position, for every row count of `kind`."""
    draw = torch.Generator().manual_seed(0)
    weight_NK = torch.randn(outputs, inputs, generator=draw).to(dtype)
    row_1K = torch.randn(1, inputs, generator=draw).to(dtype)
    sizes = sorted({kind.padded(count) for count in _COUNTS})
    all_MK = row_1K.expand(sizes[-1], inputs).contiguous()
    first_N = F.linear(all_MK, weight_NK)[0]
    return all(bool((F.linear(all_MK[:size], weight_NK) == first_N).all()) for size in sizes)


def _products(shape: Architecture) -> Iterable[tuple[int, int]]:
    """(inputs, outputs) of the model's linear layers."""
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    for inputs, outputs in (
        (shape.hidden, queries),
        (shape.hidden, keys),
        (queries, shape.hidden),
        (shape.hidden, shape.intermediate),
        (shape.intermediate, shape.hidden),
        (shape.hidden, shape.vocabulary),
    ):
        yield inputs, min(outputs, _MAX_OUTPUTS)
