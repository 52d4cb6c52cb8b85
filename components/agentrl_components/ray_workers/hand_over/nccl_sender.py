"""The trainers' side of a hand-over from GPU to GPU (`nccl.NcclTransfer`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol
from uuid import uuid4

import torch
from torch import Tensor

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.hand_over.buckets import BUCKET_BYTES
from agentrl_components.sharded.model import DTYPES
from agentrl_components.sharded.rank import Rank

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
        results([sampler.start_update.remote(self._hand_over) for sampler in self._samplers])

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Have every engine receive the weights that `update_info` describes. vLLM calls this in a
        thread, and broadcasts meanwhile: without `abort` it would wait for ever for an engine that
        has failed, and the error would not be seen."""
        with ExitStack() as failed:
            failed.push(self._fail)
            taken = [one.receive.remote(self._hand_over, update_info) for one in self._samplers]
            results(taken)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Have every engine use the new weights."""
        del weight_version  # versions are numbers here
        name = self._hand_over
        results([one.finish_update.remote(name, self.version) for one in self._samplers])

    def _fail(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """If there was an error, keep it and end the broadcast."""
        if error is not None:
            self.failure = error
            if self.abort is not None:
                self.abort()


class TransferEngine(Protocol):
    """What is used of vLLM's `TrainerWeightTransferEngine`."""

    def send_weights(self) -> None:
        """Send all weights of the source, and have the client's engines load them."""
        ...

    def shutdown(self) -> None:
        """Leave the process group, and end a broadcast that is under way."""
        ...


class Sender:
    """A rank's side of the transfer. All ranks make the same calls."""

    def __init__(self, client: SamplersClient, source: RankWeights, engine: TransferEngine) -> None:
        """`engine` sends the weights of `source`, and calls `client`."""
        self._client, self._source, self._engine = client, source, engine
        client.abort = engine.shutdown

    def send(self, version: int) -> int:
        """Send all weights. Returns their bytes. Raises what an engine raised that did not receive
        them; then the process group is of no use any more."""
        self._client.version = version
        try:
            self._engine.send_weights()
        except (RuntimeError, AssertionError) as error:
            # A broadcast that is ended fails with an error of its own.
            if self._client.failure is not None:
                raise self._client.failure from error
            raise
        return self._source.bytes

    def close(self) -> None:
        """Leave the process group."""
        self._engine.shutdown()


def form_group(ranks: Sequence[Any], samplers: Sequence[Any], tensor_parallel: int) -> None:
    """Have trainers, which are `RankActor`s, and samplers form the process group of a hand-over.
    Raises `WorkersLostError` as soon as one of them has died or cannot join; the others may wait
    for it for ever."""
    (address,) = results([ranks[0].meeting_point.remote()])
    client = SamplersClient(samplers, tensor_parallel)
    opened = [rank.open_nccl.remote(address, client) for rank in ranks]
    results([*client.join(address), *opened])


def open_sender(rank: Rank, number: int, address: str, client: SamplersClient) -> Sender:
    """Form the process group. `number` is that of the rank; `address` is where rank 0 and the vLLM
    workers meet."""
    from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    group = NCCLTrainerInitInfo(
        rank=number, world_size=client.members, **meeting(address), **PACKED
    )
    source = RankWeights(rank)
    try:
        engine = WeightTransferTrainerFactory.trainer_init(group, client=client, source=source)
    except RuntimeError as error:
        raise WorkersLostError(f"the process group of the hand-over was not formed: {error}") from (
            error
        )
    return Sender(client, source, engine)


def meeting(address: str) -> dict[str, Any]:
    """Where a process group meets, in vLLM's words."""
    host, _, port = address.rpartition(":")
    return {"master_address": host, "master_port": int(port)}


class RankWeights:
    """Implements vLLM's `WeightSource` over the shards of a rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    @property
    def bytes(self) -> int:
        """Bytes of all weights."""
        sizes = [math.prod(shape) for shape in self._rank.weight_shapes().values()]
        return sum(sizes) * self._dtype.itemsize

    def metadata(self) -> list[Any]:
        """Name, type and shape of every weight."""
        from vllm.distributed.weight_transfer.base import ParamMeta

        shapes = self._rank.weight_shapes()
        return [ParamMeta(name, self._dtype, shape) for name, shape in shapes.items()]

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

    @property
    def _dtype(self) -> torch.dtype:
        return DTYPES[self._rank.spec.model.dtype]
