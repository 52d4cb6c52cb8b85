"""Hand-over of weights in buckets, through the shared memory of Ray."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from agentrl_components.ray_workers.calls import results_of_living
from agentrl_components.ray_workers.hand_over.transfer import HandOver

BUCKETS_AHEAD = 2
"""Buckets that the samplers load at the same time, and that the trainers gather ahead of them."""


class WeightSource(Protocol):
    """Has the newest weights; `RayTrainers` implements it."""

    def buckets(self, *, adapters: bool) -> Iterator[Any]:
        """References to `Bucket`s that hold all weights, or the adapters alone."""
        ...


class BucketTransfer:
    """Implements `WeightTransfer` with buckets in Ray's shared memory.

    Weights are gathered, stored and loaded bucket by bucket at the same time. Samplers on one
    machine share the stored buckets. A bucket is freed when all samplers have loaded it, so there
    are never more than `BUCKETS_AHEAD` here, and no process or machine holds a copy of all weights.
    """

    def __init__(self, source: WeightSource, *, adapters: bool) -> None:
        """`adapters`: only adapters are handed over (LoRA). The samplers have the base weights."""
        self._source, self._adapters = source, adapters

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`."""
        began = time.monotonic()
        loading: deque[list[Any]] = deque()
        size = 0
        results_of_living([sampler.start_update.remote() for sampler in samplers])
        for bucket in self._source.buckets(adapters=self._adapters):
            if len(loading) == BUCKETS_AHEAD:
                size += _bytes_loaded(loading.popleft())
            loading.append([sampler.load.remote(bucket) for sampler in samplers])
        size += sum(map(_bytes_loaded, loading))
        results_of_living([sampler.finish_update.remote(version) for sampler in samplers])
        return HandOver(seconds=time.monotonic() - began, bytes=size)

    def send_again(self, sampler: Any, version: int) -> None:
        """As `WeightTransfer.send_again`."""
        self.send([sampler], version)


def _bytes_loaded(calls: Sequence[Any]) -> int:
    """Wait for a `load` of each sampler. Returns the bytes that each has loaded: the same for all
    that live, 0 if none does."""
    return max(results_of_living(calls), default=0)
