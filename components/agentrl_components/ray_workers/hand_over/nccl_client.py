"""What a hand-over from GPU to GPU asks of the samplers' engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from agentrl_components.ray_workers.calls.silence import SilenceWatch
from agentrl_components.ray_workers.hand_over.buckets import BUCKET_BYTES
from agentrl_envs.http.address import host_and_port

PACKED = {
    "packed": True,
    "packed_buffer_size_bytes": BUCKET_BYTES,
    "packed_num_buffers": 2,
}
"""How weights are sent, in vLLM's words: in buffers of that many bytes or one weight, of which
three exist at a time on each device."""


class SamplersClient:
    """Implements vLLM's `VLLMWeightSyncClient`: what the trainers' side asks of the engines."""

    version = 0
    """Version of the weights that are sent."""
    since: int | None = None
    """The version since which changes are sent. None: all weights are sent."""
    abort: Callable[[], None] | None = None
    """Ends a broadcast that is under way. Called if an engine does not receive it."""
    failure: BaseException | None = None
    """Why an engine did not receive the weights."""

    def __init__(self, samplers: Sequence[Any], tensor_parallel: int) -> None:
        self._samplers, self._tensor_parallel = list(samplers), tensor_parallel
        self._hand_over = ""
        """Name of the hand-over under way."""

    @property
    def members(self) -> int:
        """Size of the process group: the sender, and the workers of all engines."""
        return 1 + len(self._samplers) * self._tensor_parallel

    def join(self, address: str) -> list[Any]:
        """Have every engine join the process group that meets at `address`, with ranks of its own.
        Returns the calls. The driver makes them: the first rank, which waits in NCCL for the
        engines, would not see that one has failed."""
        offsets = [1 + n * self._tensor_parallel for n in range(len(self._samplers))]
        group = {**meeting(address), "world_size": self.members, **PACKED}
        return [
            sampler.join_nccl.remote({**group, "rank_offset": offset})
            for sampler, offset in zip(self._samplers, offsets, strict=True)
        ]

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        """Nothing: the driver calls `join`."""
        del init_info

    def start_weight_update(self) -> None:
        """Have every engine wait for new weights."""
        self._hand_over = uuid4().hex
        name, since = self._hand_over, self.since
        self._results([sampler.start_update.remote(name, since) for sampler in self._samplers])

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Have every engine receive the weights that `update_info` describes. vLLM calls this in a
        thread, and broadcasts meanwhile: without `abort` it would wait for ever for an engine that
        has failed, and the error would not be seen."""
        with ExitStack() as failed:
            failed.push(self._fail)
            taken = [one.receive.remote(self._hand_over, update_info) for one in self._samplers]
            self._results(taken)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Have every engine use the new weights."""
        del weight_version  # versions are numbers here
        name = self._hand_over
        self._results([one.finish_update.remote(name, self.version) for one in self._samplers])

    def _results(self, calls: Sequence[Any]) -> None:
        """Wait for a call of each sampler. Raises `WorkersLostError` if one is lost or silent."""
        SilenceWatch().results(self._samplers, calls)

    def _fail(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """If there was an error, keep it and end the broadcast."""
        if error is not None:
            self.failure = error
            if self.abort is not None:
                self.abort()


def meeting(address: str) -> dict[str, Any]:
    """Where a process group meets, in vLLM's words."""
    host, port = host_and_port(address)
    return {"master_address": host, "master_port": port}
