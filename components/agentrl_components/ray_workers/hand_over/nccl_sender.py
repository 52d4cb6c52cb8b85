"""The trainers' side of a hand-over from GPU to GPU (`nccl.NcclTransfer`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol
from uuid import uuid4

import torch
from torch import Tensor

from agentrl_components.ray_workers.calls import results
from agentrl_components.sharded.model import DTYPES
from agentrl_components.sharded.rank import Rank


class SamplersClient:
    """Implements vLLM's `VLLMWeightSyncClient`: what the trainers' side asks of the engines."""

    version = 0
    """Version of the weights that are sent."""
    abort: Callable[[], None] | None = None
    """Ends a broadcast that is under way. Called if an engine does not receive it."""

    def __init__(self, samplers: Sequence[Any], tensor_parallel: int) -> None:
        self._samplers, self._tensor_parallel = list(samplers), tensor_parallel
        self._hand_over = ""
        """Name of the hand-over under way."""

    @property
    def members(self) -> int:
        """Size of the process group: the sender, and the workers of all engines."""
        return 1 + len(self._samplers) * self._tensor_parallel

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        """Have every engine join the process group, with ranks of its own."""
        offsets = [1 + n * self._tensor_parallel for n in range(len(self._samplers))]
        results(
            [
                sampler.join_nccl.remote({**init_info, "rank_offset": offset})
                for sampler, offset in zip(self._samplers, offsets, strict=True)
            ]
        )

    def start_weight_update(self) -> None:
        """Have every engine wait for new weights."""
        self._hand_over = uuid4().hex
        results([sampler.start_update.remote(self._hand_over) for sampler in self._samplers])

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Have every engine receive the weights that `update_info` describes. vLLM calls this in a
        thread, and broadcasts meanwhile: without `abort` it would wait for ever for an engine that
        has failed, and the error would not be seen."""
        with ExitStack() as failed:
            if self.abort is not None:
                failed.callback(self.abort)
            taken = [one.receive.remote(self._hand_over, update_info) for one in self._samplers]
            results(taken)
            failed.pop_all()

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Have every engine use the new weights."""
        del weight_version  # versions are numbers here
        name = self._hand_over
        results([one.finish_update.remote(name, self.version) for one in self._samplers])


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
        self._source.wait()
        self._engine.send_weights()
        return self._source.bytes

    def close(self) -> None:
        """Leave the process group."""
        self._engine.shutdown()


def open_sender(rank: Rank, number: int, address: str, client: SamplersClient) -> Sender:
    """Form the process group. `number` is that of the rank; `address` is where rank 0 and the vLLM
    workers meet."""
    from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    host, _, port = address.rpartition(":")
    group = NCCLTrainerInitInfo(
        rank=number, master_address=host, master_port=int(port), world_size=client.members
    )
    source = RankWeights(rank)
    engine = WeightTransferTrainerFactory.trainer_init(group, client=client, source=source)
    return Sender(client, source, engine)


class RankWeights:
    """Implements vLLM's `WeightSource` over the shards of a rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank

    @property
    def bytes(self) -> int:
        """Bytes of all weights."""
        sizes = [math.prod(shape) for shape in self._rank.weight_shapes().values()]
        return sum(sizes) * self._dtype.itemsize

    def wait(self) -> None:
        """Wait until the device has computed the weights. The first rank reads them on CUDA streams
        of vLLM's, which do not wait for the stream of the optimizer's last step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def metadata(self) -> list[Any]:
        """Name, type and shape of every weight."""
        from vllm.distributed.weight_transfer.base import ParamMeta

        shapes = self._rank.weight_shapes()
        return [ParamMeta(name, self._dtype, shape) for name, shape in shapes.items()]

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._rank.full_weights()

    @property
    def _dtype(self) -> torch.dtype:
        return DTYPES[self._rank.spec.model.dtype]
