"""Hand-over of weights from trainers to samplers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """What a hand-over took."""

    seconds: float
    bytes: int
    """Bytes of the weights, counted once."""


class WeightSource(Protocol):
    """Who has the newest weights: `RayTrainers`."""

    def buckets(self) -> Iterator[Any]:
        """References to `Bucket`s that hold all weights."""
        ...


class WeightTransfer(Protocol):
    """A way for weights to get from the trainers to the samplers."""

    def send(self, samplers: Sequence[Any]) -> HandOver:
        """Give the newest weights to samplers. One that has died is left out."""
        ...

    def send_again(self, sampler: Any) -> None:
        """Give the weights of the last `send` to a sampler that replaces one that died."""
        ...


class ObjectStoreTransfer:
    """Implements `WeightTransfer` with Ray's object store.

    Weights are gathered, stored and loaded bucket by bucket at the same time. Samplers on one
    machine share the stored buckets."""

    def __init__(self, source: WeightSource) -> None:
        self._source = source
        self._sent: list[Any] = []
        """References to the buckets of the last `send`."""

    def send(self, samplers: Sequence[Any]) -> HandOver:
        """As `WeightTransfer.send`. Raises `WorkersLostError` if a trainer died."""
        began = time.monotonic()
        self._sent = []
        loads: list[list[Any]] = [[] for _ in samplers]
        for reference in self._source.buckets():
            self._sent.append(reference)
            for sampler, own in zip(samplers, loads, strict=True):
                own.append(sampler.load.remote(reference))
        loaded = [_bytes(own) for own in loads]
        return HandOver(seconds=time.monotonic() - began, bytes=max(loaded))

    def send_again(self, sampler: Any) -> None:
        """As `WeightTransfer.send_again`."""
        _bytes([sampler.load.remote(reference) for reference in self._sent])


def _bytes(loads: Sequence[Any]) -> int:
    """The bytes that a sampler has loaded; 0 if it has died."""
    import ray
    from ray.exceptions import RayActorError

    try:
        return sum(ray.get(list(loads)))
    except RayActorError:
        return 0
