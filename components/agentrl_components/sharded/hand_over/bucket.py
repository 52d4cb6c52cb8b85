"""Weights, or what changed of them, in pieces of bounded size, for the hand-over to other
processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.weight_change import WeightChange

T = TypeVar("T")
Entry = tuple[str, str, tuple[int, ...]]
"""Name, type and shape of a weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Some weights in one array, which processes of a machine can share without a copy."""

    entries: tuple[Entry, ...]
    """The weights in the order of their bytes."""
    content: NDArray[np.uint8]

    @property
    def bytes(self) -> int:
        """Bytes of the weights."""
        return self.content.nbytes

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by name, as copies."""
        for name, kind, shape, span in spans(self.entries):
            part = torch.from_numpy(self.content[span].copy())
            yield name, part.view(kind).view(shape)


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
        return self.indices.bytes + self.values.bytes

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


def entries_of(weights: Iterable[tuple[str, Tensor]]) -> tuple[Entry, ...]:
    """Name, type and shape of each weight."""
    return tuple(
        (name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in weights
    )


def spans(entries: Iterable[Entry]) -> Iterator[tuple[str, torch.dtype, tuple[int, ...], slice]]:
    """Name, type, shape and place of each weight in the bytes of all, which follow each other."""
    start = 0
    for name, dtype, shape in entries:
        kind: torch.dtype = getattr(torch, dtype)
        end = start + math.prod(shape) * kind.itemsize
        yield name, kind, shape, slice(start, end)
        start = end


def bytes_of(tensor: Tensor) -> Tensor:
    """The bytes of a tensor, as a vector."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _bucket(weights: list[tuple[str, Tensor]]) -> Bucket:
    content = np.concatenate([bytes_of(tensor).numpy() for _, tensor in weights])
    return Bucket(entries=entries_of(weights), content=content)
