"""Hand-over of weights in buckets, through the shared memory of Ray."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from agentrl_components.ray_workers.calls.silence import SilenceWatch
from agentrl_components.ray_workers.hand_over.receivers import Receivers
from agentrl_components.ray_workers.hand_over.transfer import HandOver

BUCKET_BYTES = 64 << 20
"""Bytes of weights that are handed over at a time. A weight that is larger is a bucket of its own.
"""
BUCKETS_AHEAD = 2
"""Buckets that the samplers load at the same time, and that the trainers gather ahead of them."""
BUCKETS_AT_ONCE = 2 * BUCKETS_AHEAD + 2
"""Most buckets that exist at the same time: with one on the way from the trainers to the samplers,
and one that is being gathered."""
OBJECT_STORE_BYTES = (BUCKETS_AT_ONCE + 2) * BUCKET_BYTES
"""Shared memory of a Ray node that this process starts. Arguments and results of other calls have
the room of two buckets; they do not come during a hand-over. Ray spills to disk above."""


class WeightSource(Protocol):
    """Has the newest weights; `RankSource` implements it."""

    def buckets(self, *, adapters: bool) -> Iterator[Any]:
        """References to `Bucket`s that hold all weights, or the adapters alone."""
        ...

    def change_buckets(self) -> Iterator[Any]:
        """References to `ChangeBucket`s that hold what changed since the last hand-over."""
        ...

    def rest(self) -> None:
        """Give back the device memory in which weights were gathered."""
        ...


class BucketTransfer:
    """Implements `ChangesTransfer` with buckets in Ray's shared memory.

    Weights are gathered, stored and loaded bucket by bucket at the same time. Samplers on one
    machine share the stored buckets. A bucket is freed when all samplers have loaded it, so there
    are never more than `BUCKETS_AHEAD` here, and no process or machine holds a copy of all weights.
    """

    def __init__(
        self,
        source: WeightSource,
        *,
        adapters: bool,
        shares: bool = False,
        watch: SilenceWatch | None = None,
    ) -> None:
        """`adapters`: only adapters are handed over (LoRA). The samplers have the base weights.
        `shares`: samplers use the GPUs of the trainers. `watch` says which samplers are silent."""
        self._source, self._adapters, self._watch = source, adapters, watch
        self._shares = shares

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`."""
        return self._send(samplers, version)

    def send_changes(self, samplers: Sequence[Any], version: int, since: int) -> HandOver:
        """As `ChangesTransfer.send_changes`."""
        return self._send(samplers, version, since)

    def send_again(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send_again`."""
        return self.send(samplers, version)

    def _send(self, samplers: Sequence[Any], version: int, since: int | None = None) -> HandOver:
        """Send all weights, or what changed of them `since` a version."""
        began = time.monotonic()
        receivers = Receivers(samplers, self._watch)
        loading: deque[Mapping[int, Any]] = deque()
        size = 0
        receivers.results(receivers.call("start_update", since))
        if since is None:
            method, buckets = "load", self._source.buckets(adapters=self._adapters)
        else:
            method, buckets = "change", self._source.change_buckets()
        for bucket in buckets:
            if len(loading) == BUCKETS_AHEAD:
                size += receivers.bytes_loaded(loading.popleft())
            loading.append(receivers.call(method, bucket))
        size += sum(map(receivers.bytes_loaded, loading))
        if self._shares:
            self._source.rest()  # before vLLM takes the memory of its cache
        receivers.results(receivers.call("finish_update", version))
        return HandOver(seconds=time.monotonic() - began, bytes=size, lost=receivers.lost)
