"""The trainers' side of a hand-over from GPU to GPU (`nccl.NcclTransfer`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls.results import results
from agentrl_components.ray_workers.calls.silence import SilenceWatch
from agentrl_components.ray_workers.hand_over.nccl_client import PACKED, SamplersClient, meeting
from agentrl_components.ray_workers.hand_over.rank_weights import RankWeights
from agentrl_components.sharded.rank import Rank


class TransferEngine(Protocol):
    """A rank's part of the process group with the engines."""

    def send_weights(self) -> None:
        """Send all weights of the source, and have the client's engines load them."""
        ...

    def send_changes(self, parts: Iterable[Sequence[WeightChange]]) -> None:
        """Send changes part by part, and have the client's engines apply them."""
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

    def send(self, version: int, since: int | None = None) -> int:
        """Send all weights, or what changed of them `since` a version. Returns their bytes. Raises
        what an engine raised that did not receive them; then the process group is of no use any
        more."""
        self._client.version, self._client.since = version, since
        try:
            size = self._send_all() if since is None else self._send_changes()
        except Exception as error:
            # A broadcast that is ended fails with an error of its own: of NCCL, or because the
            # thread that ended it took the group away from this one.
            if self._client.failure is not None:
                raise self._client.failure from error
            raise
        self._source.rest()
        return size

    def close(self) -> None:
        """Leave the process group."""
        self._engine.shutdown()

    def _send_all(self) -> int:
        """Send all weights. Returns their bytes."""
        self._engine.send_weights()
        return self._source.bytes

    def _send_changes(self) -> int:
        """Send the changes. Returns their bytes."""
        size = 0

        def counted() -> Iterator[Sequence[WeightChange]]:
            nonlocal size
            for part in self._source.changes():
                size += sum(change.nbytes for change in part)
                yield part

        self._engine.send_changes(counted())
        return size


class VllmTransferEngine:
    """Implements `TransferEngine` with vLLM's engines for all weights and for changes, in one
    process group."""

    def __init__(self, whole: Any, client: SamplersClient) -> None:
        """`whole` is vLLM's engine for all weights, which has formed the process group."""
        from vllm.distributed.weight_transfer.sparse_nccl_engine import (
            SparseNCCLTrainerWeightTransferEngine,
        )

        self._whole, self._client = whole, client
        self._sparse = SparseNCCLTrainerWeightTransferEngine(
            client=client, is_sender=whole.is_sender
        )
        self._sparse.model_update_group = whole.model_update_group

    def send_weights(self) -> None:
        """As `TransferEngine.send_weights`."""
        self._whole.send_weights()

    def send_changes(self, parts: Iterable[Sequence[WeightChange]]) -> None:
        """As `TransferEngine.send_changes`."""
        from vllm.distributed.weight_transfer.sparse_nccl_engine import SparseWeightPatch

        if self._sparse.is_sender:
            self._client.start_weight_update()
        for part in parts:  # the other ranks help to gather them
            self._sparse.send_weight_chunk(
                [
                    SparseWeightPatch(
                        name=change.name,
                        indices=change.indices,
                        values=change.values,
                        full_shape=change.shape,
                    )
                    for change in part
                ]
            )
        if self._sparse.is_sender:
            self._client.finish_weight_update()

    def shutdown(self) -> None:
        """As `TransferEngine.shutdown`."""
        self._sparse.model_update_group = None
        self._whole.shutdown()


def form_group(ranks: Sequence[Any], samplers: Sequence[Any], tensor_parallel: int) -> None:
    """Have trainers, which are `RankActor`s, and samplers form the process group of a hand-over.
    Raises `WorkersLostError` as soon as one of them has died or cannot join, or a sampler is
    silent; the others may wait for it for ever."""
    (address,) = results([ranks[0].reserve_nccl_address.remote()])
    client = SamplersClient(samplers, tensor_parallel)
    opened = [rank.open_nccl.remote(address, client) for rank in ranks]
    SilenceWatch().results(samplers, client.join(address), opened)


def open_sender(rank: Rank, number: int, address: str, client: SamplersClient) -> Sender:
    """Form the process group. `number` is that of the rank; `address` is where rank 0 and the vLLM
    workers meet."""
    from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    group = NCCLTrainerInitInfo(
        rank=number, world_size=client.members, **meeting(address), **PACKED
    )
    source = RankWeights(rank)
    stream = torch.cuda.current_stream() if torch.cuda.is_available() else None
    try:
        with torch.cuda.stream(stream):  # otherwise vLLM changes that of this process for good
            engine = WeightTransferTrainerFactory.trainer_init(group, client=client, source=source)
    except (RuntimeError, OSError) as error:
        raise WorkersLostError(f"the process group of the hand-over was not formed: {error}") from (
            error
        )
    return Sender(client, source, VllmTransferEngine(engine, client))
