"""What changed of a policy's weights since they were handed over.

In bfloat16 an update at usual learning rates leaves most weights as they were: its steps are
smaller than the distance between two numbers. A change is found by comparing bits and brings the
new value, so an engine that has all changes has the weights themselves.

Legend: P parameters, R ranks, C changed entries.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from agentrl_components.engines.weight_change import LARGEST, WeightChange
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.sharded.hand_over.bucket import in_groups
from agentrl_components.sharded.rows import local_rows, rows_of

INDEX_BYTES = 4
WORTH = 0.5
"""Share of the bytes of a rank's rows up to which changes are sent in their place. Finding and
applying them takes longer than copying whole weights."""
MANY = -1
"""The count of a rank on which too much changed."""
BITS = {2: torch.int16, 4: torch.int32}
"""Integers by the bytes of an entry."""


class WeightChanges:
    """Compares a sharded policy with a copy of its weights, which every rank keeps of its rows:
    2 bytes per parameter in bfloat16, over all ranks. `find` and `gathered` are collective."""

    def __init__(self, policy: CausalModel, dtype: torch.dtype) -> None:
        """`dtype` is the type in which weights are handed over."""
        self._dtype = dtype
        self._parameters = dict(policy.named_parameters())
        self._names = [policy.saved_name(name) for name in self._parameters]
        self._copy: list[Tensor] = []
        """[P] This rank's rows of the weights that were handed over; empty before."""
        self._found: list[tuple[Tensor, Tensor]] = []
        """[P] Places [C] int32 in this rank's rows, flattened, and new values [C], as `find` found
        them; empty if they are not to be sent."""
        self._counts: list[list[int]] = []
        """[R][P] Changed entries of all ranks."""

    @torch.no_grad()
    def remember(self) -> None:
        """Keep the weights as they are now, unchanged since `find`: they have been handed over."""
        if not self._copy:
            self._copy = [self._rows(p).clone() for p in self._parameters.values()]
        elif self._found:
            for copy, (places, values) in zip(self._copy, self._found, strict=True):
                copy.index_copy_(0, places.long(), values)
        else:
            for copy, parameter in zip(self._copy, self._parameters.values(), strict=True):
                copy.copy_(self._rows(parameter))
        self._found = []

    @torch.no_grad()
    def find(self) -> bool:
        """Find what changed since `remember`. Returns whether to send that in the place of the
        weights: there is something to compare with, and the changes are few on every rank."""
        sizes = [parameter.numel() for parameter in self._parameters.values()]
        self._found = []
        if not self._copy or max(sizes) > LARGEST:
            return False
        found = self._changed()
        counts = [MANY] * len(sizes) if found is None else [len(places) for places, _ in found]
        own = torch.tensor(counts, device=self._copy[0].device)
        of_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(of_ranks, own)
        self._counts = torch.stack(of_ranks).tolist()
        if found is None or any(MANY in of_rank for of_rank in self._counts):
            return False
        self._found = found
        return True

    @torch.no_grad()
    def gathered(self, limit: int) -> Iterator[list[WeightChange]]:
        """The changes that `find` found, without the weights that have none, in parts of at most
        `limit` bytes or of one weight. Only the first rank yields them."""
        totals = [sum(of_ranks) for of_ranks in zip(*self._counts, strict=True)]
        sized = ((n, total * self._entry_bytes) for n, total in enumerate(totals) if total)
        for numbers in in_groups(sized, limit):
            yield from self._gather(numbers)

    @property
    def _entry_bytes(self) -> int:
        return INDEX_BYTES + self._dtype.itemsize

    def _changed(self) -> list[tuple[Tensor, Tensor]] | None:
        """What changed of this rank's rows, as in `_found`. None: too much to be worth sending,
        and to be held beside the weights."""
        bits = BITS[self._dtype.itemsize]
        left = WORTH * sum(copy.nbytes for copy in self._copy)
        found = []
        for parameter, before in zip(self._parameters.values(), self._copy, strict=True):
            now = self._rows(parameter)
            places = (now.view(bits) != before.view(bits)).nonzero().squeeze(1)
            left -= len(places) * self._entry_bytes
            if left < 0:
                return None
            found.append((places.to(torch.int32), now[places]))
        return found

    def _gather(self, numbers: list[int]) -> Iterator[list[WeightChange]]:
        """The changes of some weights, gathered from all ranks. Only the first rank has them."""
        counts = [[of_rank[number] for number in numbers] for of_rank in self._counts]
        own = [(self._places_in_whole(number), self._found[number][1]) for number in numbers]
        indices, values = (_collect(torch.cat(parts), counts) for parts in zip(*own, strict=True))
        if dist.get_rank() > 0:
            return
        shapes = [tuple(parameter.shape) for parameter in self._parameters.values()]
        yield [
            WeightChange(
                name=self._names[number],
                shape=shapes[number],
                indices=torch.cat(places),
                values=torch.cat(new),
            )
            for number, places, new in zip(numbers, indices, values, strict=True)
        ]

    def _places_in_whole(self, number: int) -> Tensor:
        """Places [C] of this rank's changes in the whole weight, flattened."""
        shape = list(self._parameters.values())[number].shape
        rows = rows_of(shape[0], dist.get_rank(), dist.get_world_size())
        first: int = rows.start * (shape.numel() // shape[0])
        return self._found[number][0] + first

    def _rows(self, parameter: Tensor) -> Tensor:
        """This rank's rows in the type of the hand-over, flattened."""
        rows: Tensor = local_rows(parameter).to(self._dtype)
        return rows.view(-1)


def _collect(own: Tensor, counts: list[list[int]]) -> list[tuple[Tensor, ...]]:
    """Arrays of all ranks, by weight and rank, on the first rank; nothing on the others. `counts`
    [R][P] says how many entries of each weight a rank's array has. Messages are as long as the
    longest, in bytes: gloo knows few types."""
    message = own.new_zeros(max(map(sum, counts)))
    message[: len(own)] = own
    content = message.view(torch.uint8)
    received = [torch.empty_like(content) for _ in counts] if dist.get_rank() == 0 else None
    dist.gather(content, received, dst=0)
    if received is None:
        return []
    arrays = [one.view(own.dtype) for one in received]
    split = [torch.split(a[: sum(n)], n) for a, n in zip(arrays, counts, strict=True)]
    return list(zip(*split, strict=True))
