"""How many rows a matrix product needs before the bits of one depend on no other.

A library of linear algebra has several kernels. Which of them computes a row depends on how many
rows there are, on where the row stands among them, and on the processor: with AVX2 products come
in tiles of 12 rows and change again at 56, with AVX-512 they need 4 to 16. So the machine is asked,
once a process, with the shapes of the model at hand.

Legend: M rows, K inputs, N outputs.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from agentrl_components.model.architecture import Architecture

_LOG = logging.getLogger(__name__)
_COUNTS = (*range(1, 97), 128, 192, 256, 384)
"""Numbers of rows that are tried: past every threshold that was seen, and through every tile."""
_OUTPUTS = 256
"""Columns of a product that is tried, at most: kernels are chosen by rows and inputs."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of rows that products are padded to."""

    least: int
    step: int

    def padded(self, rows: int) -> int:
        """The next such number from `rows` on."""
        return -(-max(rows, self.least) // self.step) * self.step

    def by(self, step: int) -> Rows:
        """Those of them that are multiples of `step`."""
        return Rows(self.least, math.lcm(self.step, step))


ANY = Rows(1, 1)
KINDS = (Rows(4, 1), Rows(8, 4), Rows(16, 1), Rows(24, 12), Rows(60, 12), Rows(96, 48))
"""From the cheapest on: what some processor needs for some model."""


def rows(shape: Architecture, dtype: torch.dtype, device: torch.device) -> Rows:
    """Numbers of rows at which the linear layers of such a model compute each row by itself. `ANY`
    where there are none: on a GPU, and where several threads share a product's rows."""
    if device.type != "cpu" or torch.get_num_threads() > 1:
        return ANY
    return asked(frozenset(_products(shape)), dtype)


@functools.cache
def asked(
    products: frozenset[tuple[int, int]], dtype: torch.dtype, kinds: tuple[Rows, ...] = KINDS
) -> Rows:
    """The first of `kinds` that is steady for products of all these numbers of inputs and
    outputs; `ANY`, and a warning in the log, where none is."""
    for kind in kinds:
        if all(steady(kind, inputs, outputs, dtype) for inputs, outputs in products):
            return kind
    _LOG.warning(
        "this processor rounds a row of %s by how many there are: runs are not repeatable bit for"
        " bit here",
        dtype,
    )
    return ANY


def steady(kind: Rows, inputs: int, outputs: int, dtype: torch.dtype) -> bool:
    """Whether equal rows have equal results, wherever they stand and however many of such a number
    there are."""
    draw = torch.Generator().manual_seed(0)
    weight_NK = torch.randn(outputs, inputs, generator=draw).to(dtype)
    row_1K = torch.randn(1, inputs, generator=draw).to(dtype)
    sizes = sorted({kind.padded(count) for count in _COUNTS})
    all_MK = row_1K.expand(sizes[-1], inputs).contiguous()
    first_N = F.linear(all_MK, weight_NK)[0]
    return all(bool((F.linear(all_MK[:size], weight_NK) == first_N).all()) for size in sizes)


def _products(shape: Architecture) -> Iterable[tuple[int, int]]:
    """Inputs and outputs of the linear layers."""
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    for inputs, outputs in (
        (shape.hidden, queries),
        (shape.hidden, keys),
        (queries, shape.hidden),
        (shape.hidden, shape.intermediate),
        (shape.intermediate, shape.hidden),
        (shape.hidden, shape.vocabulary),
    ):
        yield inputs, min(outputs, _OUTPUTS)
