"""Hand-over of weights from GPU to GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.silence import SilenceWatch
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer, WeightSource
from agentrl_components.ray_workers.hand_over.transfer import HandOver


class NcclSource(WeightSource, Protocol):
    """Sends weights over NCCL; `RankSource` implements it."""

    def open_nccl(self, samplers: Sequence[Any], tensor_parallel: int) -> None:
        """Form a process group with all workers of the samplers' engines."""
        ...

    def send_nccl(self, version: int, since: int | None) -> int:
        """Send all weights to the process group, or what changed of them `since` a version. Returns
        the bytes."""
        ...


class NcclTransfer:
    """Implements `ChangesTransfer` with vLLM's NCCL weight-transfer engines. Needs vLLM and
    trainers on GPUs, and no LoRA.

    The first rank of the trainers and every vLLM worker form a process group. The ranks gather
    weight by weight, and the first broadcasts them in packed buffers, which every engine loads as
    they arrive."""

    def __init__(self, source: NcclSource, tensor_parallel: int) -> None:
        self._source, self._tensor_parallel = source, tensor_parallel
        self._buckets = BucketTransfer(source, adapters=False)
        self._members: list[Any] = []
        """Samplers in the process group."""

    def send(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send`, but `WorkersLostError` is also raised if a sampler is lost or
        silent during the hand-over: the process group waits for every member. The run then resumes
        from its last checkpoint. Samplers that died before are left out, by a group without them.
        """
        return self._send(samplers, version)

    def send_changes(self, samplers: Sequence[Any], version: int, since: int) -> HandOver:
        """As `ChangesTransfer.send_changes`, and as `send` if a sampler is lost."""
        return self._send(samplers, version, since)

    def send_again(self, samplers: Sequence[Any], version: int) -> HandOver:
        """As `WeightTransfer.send_again`, in buckets: the process group lacks the new samplers, and
        is formed anew at the next `send`."""
        return self._buckets.send_again(samplers, version)

    def _send(self, samplers: Sequence[Any], version: int, since: int | None = None) -> HandOver:
        """Send all weights, or what changed of them `since` a version."""
        began = time.monotonic()
        asked = {n: sampler.__ray_ready__.remote() for n, sampler in enumerate(samplers)}
        answers = SilenceWatch().outcomes(dict(enumerate(samplers)), asked)
        lost = {n: one for n, one in answers.items() if isinstance(one, WorkersLostError)}
        living = [sampler for place, sampler in enumerate(samplers) if place not in lost]
        size = 0
        if living:
            if self._members != living:
                self._source.open_nccl(living, self._tensor_parallel)
                self._members = living
            size = self._source.send_nccl(version, since)
        return HandOver(seconds=time.monotonic() - began, bytes=size, lost=lost)
