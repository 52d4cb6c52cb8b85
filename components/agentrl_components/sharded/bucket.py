"""Weights in pieces of bounded size, for the hand-over to other processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Some weights in one array, which processes of a machine can share without a copy."""

    entries: tuple[tuple[str, str, tuple[int, ...]], ...]
    """Name, type and shape of each weight, in the order of their bytes."""
    content: NDArray[np.uint8]

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by name, as copies."""
        start = 0
        for name, dtype, shape in self.entries:
            kind: torch.dtype = getattr(torch, dtype)
            end = start + int(np.prod(shape)) * kind.itemsize
            part = torch.from_numpy(self.content[start:end].copy())
            yield name, part.view(kind).view(shape)
            start = end


def buckets(weights: Iterable[tuple[str, Tensor]], limit: int) -> Iterator[Bucket]:
    """Weights on the CPU in buckets of at most `limit` bytes. A larger weight gets a bucket of its
    own."""
    some: list[tuple[str, Tensor]] = []
    size = 0
    for name, tensor in weights:
        if some and size + tensor.nbytes > limit:
            yield _bucket(some)
            some, size = [], 0
        some.append((name, tensor))
        size += tensor.nbytes
    if some:
        yield _bucket(some)


def _bucket(weights: list[tuple[str, Tensor]]) -> Bucket:
    return Bucket(
        entries=tuple(
            (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in weights
        ),
        content=np.concatenate(
            [tensor.contiguous().reshape(-1).view(torch.uint8).numpy() for _, tensor in weights]
        ),
    )
