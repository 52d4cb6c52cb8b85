"""The weights of ranks on Ray, as hand-overs take them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from agentrl_components.ray_workers.calls.results import call_all, results, stream
from agentrl_components.ray_workers.hand_over.buckets import BUCKET_BYTES, BUCKETS_AHEAD
from agentrl_components.ray_workers.hand_over.nccl_sender import form_group
from agentrl_components.sharded.hand_over.shared_memory import SharedBucket


class RankSource:
    """Implements the sources of all transfers in this folder. Every method is a collective call of
    the ranks. Raises `WorkersLostError` if one has died."""

    def __init__(self, actors: Sequence[Any]) -> None:
        self._actors = list(actors)

    def buckets(self, *, adapters: bool = False, limit: int = BUCKET_BYTES) -> Iterator[Any]:
        """References to buckets that hold all weights, or the adapters alone, each as soon as it is
        there; of `limit` bytes, or of one weight that is larger. The ranks gather at most
        `BUCKETS_AHEAD` buckets that were not asked for yet."""
        return self._gathered("buckets", limit, adapters=adapters)

    def find_changes(self) -> bool:
        """Find what changed since `remember_weights`. Returns whether to send that in the place of
        the weights."""
        few: bool = call_all(self._actors, "find_changes")[0]
        return few

    def change_buckets(self) -> Iterator[Any]:
        """References to buckets of the changes that `find_changes` found, as `buckets`."""
        return self._gathered("change_buckets", BUCKET_BYTES)

    def remember_weights(self) -> None:
        """Have the ranks keep the weights, which all samplers have been given."""
        call_all(self._actors, "remember_weights")

    def open_nccl(self, samplers: Sequence[Any], tensor_parallel: int) -> None:
        """Form the process group of a hand-over from GPU to GPU with `samplers`."""
        form_group(self._actors, samplers, tensor_parallel)

    def send_nccl(self, version: int, since: int | None = None) -> int:
        """Send all weights to the samplers of the process group, or the changes `since` a version,
        which `find_changes` found. Returns their bytes."""
        size: int = call_all(self._actors, "send_nccl", version, since)[0]
        return size

    def start_sharing(self) -> None:
        """Begin to put all weights into memory that samplers of the same devices read."""
        call_all(self._actors, "start_sharing", BUCKET_BYTES)

    def share(self, readers: Collection[int]) -> list[SharedBucket]:
        """The next bucket of each rank, all with the same weights; empty: there are no others.
        Those of ranks that are not `readers` are not in memory."""
        buckets = call_all(self._actors, "share", list(readers))
        return [bucket for bucket in buckets if bucket is not None]

    def stop_sharing(self) -> None:
        """Free the memory of the buckets, which no sampler reads any more."""
        call_all(self._actors, "stop_sharing")

    def rest(self) -> None:
        """Give back the device memory that the ranks only need while they compute or gather."""
        call_all(self._actors, "rest")

    def check(self) -> None:
        """Raise `WorkersLostError` if a rank has died."""
        call_all(self._actors, "__ray_ready__")

    def _gathered(self, method: str, *arguments: object, **named: object) -> Iterator[Any]:
        """References to what the first rank yields, while the others help to gather it."""
        from ray.exceptions import RayError

        ahead = {"num_returns": "streaming", "_generator_backpressure_num_objects": BUCKETS_AHEAD}
        streams = [
            getattr(actor, method).options(**ahead).remote(*arguments, **named)
            for actor in self._actors
        ]
        first, *others = streams
        try:
            yield from stream(first, others)
            results([one.completed() for one in others])
        except RayError:
            self.check()
            raise
        self.check()
