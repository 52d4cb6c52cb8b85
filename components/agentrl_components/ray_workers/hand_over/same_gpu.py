"""Hand-over of weights to samplers that use the GPUs of trainers, in the memory of these GPUs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from agentrl_components.ray_workers.hand_over.receivers import Receivers
from agentrl_components.ray_workers.hand_over.transfer import HandOver
from agentrl_components.sharded.hand_over.shared_memory import BUFFERS, SharedBucket


class SharingSource(Protocol):
    """Puts weights where samplers read them; `RankSource` implements it."""

    def start_sharing(self) -> None:
        """Begin to share all weights."""
        ...

    def share(self, readers: Collection[int]) -> Sequence[SharedBucket]:
        """The next bucket of each rank, all with the same weights; empty: there are no others.
        Only those of the ranks `readers` are in memory: each of these must be read. Overwrites
        what the call before the last one shared."""
        ...

    def stop_sharing(self) -> None:
        """Free the memory of the buckets."""
        ...


class SameGpuTransfer:
    """Implements `WeightTransfer` for samplers that use the GPUs of trainers.

    Every rank gathers the weights, bucket by bucket, into the memory of its GPU, and the sampler
    that uses the same GPU copies them from there: they are not copied to the host, and no two GPUs
    exchange them but for what FSDP2 gathers. A bucket is gathered while the one before is read."""

    def __init__(self, source: SharingSource) -> None:
        self._source = source

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`."""
        began = time.monotonic()
        receivers = Receivers(samplers)
        ranks = receivers.results({n: one.rank.remote() for n, one in enumerate(samplers)})
        receivers.results(receivers.call("start_update"))
        self._source.start_sharing()
        loading: deque[Mapping[int, Any]] = deque()
        size = 0
        while buckets := self._source.share(_readers(ranks, receivers)):
            beside = {place: (buckets[rank],) for place, rank in ranks.items()}
            loading.append(receivers.call_each("load", beside))
            if len(loading) == BUFFERS:
                size += receivers.bytes_loaded(loading.popleft())
        size += sum(map(receivers.bytes_loaded, loading))
        self._source.stop_sharing()  # before vLLM takes the memory of its cache
        receivers.results(receivers.call("finish_update", version))
        return HandOver(seconds=time.monotonic() - began, bytes=size, lost=receivers.lost)

    def send_again(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send_again`."""
        return self.send(samplers, version)


def _readers(ranks: Mapping[int, int], receivers: Receivers) -> list[int]:
    """The ranks whose sampler still takes part. `ranks`: those of samplers, by their index."""
    return [rank for place, rank in ranks.items() if place not in receivers.lost]
