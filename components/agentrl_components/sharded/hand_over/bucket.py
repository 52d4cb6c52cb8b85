"""Weights, or what changed of them, in pieces of bounded size, for the hand-over to other
processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.weight_change import WeightChange

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBucket:
    """What changed of some weights."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each weight."""
    indices: Bucket
    """An array for each weight."""
    values: Bucket

    @property
    def bytes(self) -> int:
        """Bytes of indices and values."""
        return self.indices.content.nbytes + self.values.content.nbytes

    def changes(self) -> Iterator[WeightChange]:
        """The changes, weight by weight."""
        pairs = zip(self.shapes, self.indices.tensors(), self.values.tensors(), strict=True)
        for (name, shape), (_, indices), (_, values) in pairs:
            yield WeightChange(name=name, shape=shape, indices=indices, values=values)


def buckets(weights: Iterable[tuple[str, Tensor]], limit: int) -> Iterator[Bucket]:
    """Weights on the CPU in buckets of at most `limit` bytes. A larger weight gets a bucket of its
    own."""
    for some in in_groups(((pair, pair[1].nbytes) for pair in weights), limit):
        yield _bucket(some)


def change_bucket(changes: Sequence[WeightChange]) -> ChangeBucket:
    """A bucket of changes."""
    return ChangeBucket(
        shapes=tuple((one.name, one.shape) for one in changes),
        indices=_bucket([(one.name, one.indices.cpu()) for one in changes]),
        values=_bucket([(one.name, one.values.cpu()) for one in changes]),
    )


def in_groups(sized: Iterable[tuple[T, int]], limit: int) -> Iterator[list[T]]:
    """Parts, each with its bytes, in groups of at most `limit` bytes or of one part."""
    some: list[T] = []
    total = 0
    for part, size in sized:
        if some and total + size > limit:
            yield some
            some, total = [], 0
        some.append(part)
        total += size
    if some:
        yield some


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
