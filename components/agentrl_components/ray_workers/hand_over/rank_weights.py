"""The weights of a rank, as a hand-over from GPU to GPU sends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.ray_workers.hand_over.buckets import BUCKET_BYTES
from agentrl_components.sharded.rank import Rank


class RankWeights:
    """Implements vLLM's `WeightSource` over the shards of a rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    @property
    def bytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.nbytes for weight in self._rank.meta_weights().values())

    def rest(self) -> None:
        """Give back the device memory that sending took. vLLM's buffers are in memory of streams of
        their own, which torch would keep for the next hand-over alone."""
        self._rank.rest()

    def metadata(self) -> list[Any]:
        """Name, type and shape of every weight."""
        from vllm.distributed.weight_transfer.base import ParamMeta

        weights = self._rank.meta_weights()
        return [ParamMeta(name, one.dtype, tuple(one.shape)) for name, one in weights.items()]

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        """All weights, each gathered while no broadcast is under way, and complete when it is
        yielded. Ranks gather over one communicator of NCCL and the first broadcasts over another,
        on other CUDA streams: if operations of both waited for each other on several devices, they
        could wait for ever."""
        weights = self._rank.full_weights()
        while True:
            self._rank.wait_for_device()
            weight = next(weights, None)
            if weight is None:
                return
            self._rank.wait_for_device()
            yield weight

    def changes(self) -> Iterator[list[WeightChange]]:
        """What changed of the weights, in parts of at most `BUCKET_BYTES` or one weight, each
        gathered while no broadcast is under way. Other ranks than the first have none."""
        for part in self._rank.changes.gathered(BUCKET_BYTES):
            self._rank.wait_for_device()
            yield part
        self._rank.wait_for_device()
