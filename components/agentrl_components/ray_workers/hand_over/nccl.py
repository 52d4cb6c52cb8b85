"""Hand-over of weights from GPU to GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer, WeightSource
from agentrl_components.ray_workers.hand_over.transfer import HandOver


class NcclSource(WeightSource, Protocol):
    """Sends weights over NCCL; `RayTrainers` implements it."""

    def open_nccl(self, samplers: Sequence[Any], tensor_parallel: int) -> None:
        """Form a process group with all workers of the samplers' engines."""
        ...

    def send_nccl(self, version: int) -> int:
        """Send all weights to the process group. Returns their bytes."""
        ...


class NcclTransfer:
    """Implements `WeightTransfer` with vLLM's NCCL weight-transfer engines. Needs vLLM and trainers
    on GPUs, and no LoRA.

    The first rank of the trainers and every vLLM worker form a process group. The ranks gather
    weight by weight, and the first broadcasts them in packed buffers, which every engine loads as
    they arrive."""

    def __init__(self, source: NcclSource, tensor_parallel: int) -> None:
        self._source, self._tensor_parallel = source, tensor_parallel
        self._buckets = BucketTransfer(source, adapters=False)
        self._members: list[Any] = []
        """Samplers in the process group."""

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`, but `WorkersLostError` is also raised if a sampler is lost: the
        process group waits for every member. The run then resumes from its last checkpoint."""
        began = time.monotonic()
        if self._members != list(samplers):
            self._source.open_nccl(samplers, self._tensor_parallel)
            self._members = list(samplers)
        size = self._source.send_nccl(version)
        return HandOver(seconds=time.monotonic() - began, bytes=size)

    def send_again(self, sampler: Any, version: int) -> HandOver:
        """As `WeightTransfer.send_again`, in buckets: the process group lacks the new sampler, and
        is formed anew at the next `send`."""
        return self._buckets.send_again(sampler, version)
