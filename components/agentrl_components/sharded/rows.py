"""A rank's rows of a parameter that is divided over ranks.

FSDP2 divides the first dimension of every parameter into equal parts, the last of which may be
shorter or empty, as `torch.chunk` does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor


def rows_of(total: int, rank: int, ranks: int) -> slice:
    """The rows that `rank` holds of a parameter with `total` rows."""
    size = math.ceil(total / ranks)
    return slice(min(rank * size, total), min((rank + 1) * size, total))


def local_rows(parameter: Tensor) -> Tensor:
    """This rank's rows of a sharded parameter, as a view that may be written to."""
    assert isinstance(parameter, DTensor)
    with torch.no_grad():
        return parameter.to_local().detach()


def with_rows(rows: Tensor, like: Tensor) -> Tensor:
    """The sharded tensor that consists of every rank's `rows`, in the layout of the parameter
    `like`."""
    assert isinstance(like, DTensor)
    # `DTensor.from_local` takes 20 microseconds, to find the layout that is known here.
    return DTensor(rows, like._spec, requires_grad=False)  # type: ignore[no-untyped-call]
