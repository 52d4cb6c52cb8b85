"""Weights in memory that another process reads: in that of a GPU by CUDA IPC, or on a CPU in shared
memory of the machine."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler

import tenacity
import torch
from torch import Tensor, multiprocessing

from agentrl_components.sharded.hand_over.bucket import (
    Entry,
    bytes_of,
    entries_of,
    in_groups,
    spans,
)

BUFFERS = 2
"""Buffers of a process: one is filled while the other is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBucket:
    """Some weights in the memory of the process that made it, which fills that memory again after
    it has made `BUFFERS - 1` others."""

    entries: tuple[Entry, ...]
    content: bytes | None
    """The address of the memory, as torch passes it to another process; None if none reads it."""
    bytes: int
    """Bytes of the weights."""

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by name, as copies on the device. They are there when the last one was
        yielded."""
        assert self.content is not None
        content = pickle.loads(self.content)
        for name, kind, shape, span in spans(self.entries):
            yield name, content[span].clone().view(kind).view(shape)
        wait_for(content.device)


class SharedBuckets:
    """Puts weights into shared memory, bucket by bucket."""

    def __init__(self, weights: Iterator[tuple[str, Tensor]], limit: int) -> None:
        """`weights` are on one device. A bucket has at most `limit` bytes, or one weight."""
        self._limit = limit
        self._groups = in_groups(((pair, pair[1].nbytes) for pair in weights), limit)
        self._buffers: list[Tensor] = []
        """The one that was filled last is the last one."""

    def fill(self, *, read: bool) -> SharedBucket | None:
        """The next weights; None: there are no others. Overwrites those of the bucket that was
        made `BUFFERS` calls ago. `read`: there is a reader. Otherwise the weights are not put into
        shared memory, which torch would keep until the end of this process, or until a reader has
        opened it."""
        group = next(self._groups, None)
        if group is None:
            return None
        entries, size = entries_of(group), sum(tensor.nbytes for _, tensor in group)
        if not read:
            return SharedBucket(entries=entries, content=None, bytes=size)
        buffer = self._next_buffer(size, group[0][1].device)
        for (_, tensor), (*_, span) in zip(group, spans(entries), strict=True):
            buffer[span].copy_(bytes_of(tensor))
        wait_for(buffer.device)
        return SharedBucket(entries=entries, content=address_of(buffer), bytes=size)

    def _next_buffer(self, size: int, device: torch.device) -> Tensor:
        """The buffer that was filled longest ago, if it is large enough, or a new one."""
        used = self._buffers.pop(0) if len(self._buffers) == BUFFERS else None
        if used is None or used.nbytes < size:
            used = torch.empty(max(size, self._limit), dtype=torch.uint8, device=device)
        self._buffers.append(used)
        return used


def address_of(tensor: Tensor) -> bytes:
    """The address of a tensor's memory, for one other process of the machine. The strategy with
    which this process shares other tensors stays as it is."""
    if tensor.device.type != "cpu":
        return bytes(ForkingPickler.dumps(tensor))
    before = multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    # Otherwise the process would have to serve a file descriptor over a socket.
    multiprocessing.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
    try:
        return _address_in_file(tensor)
    finally:
        multiprocessing.set_sharing_strategy(before)  # type: ignore[no-untyped-call]


@tenacity.retry(
    # torch starts a process for the first address, and waits for it for a fixed time.
    retry=tenacity.retry_if_exception_message(match=r".*manager connection has timed out"),
    stop=tenacity.stop_after_attempt(3),
    reraise=True,
)
def _address_in_file(tensor: Tensor) -> bytes:
    """The address of a file in shared memory to which the tensor is moved."""
    return bytes(ForkingPickler.dumps(tensor))


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
