"""Updates by what their backward pass computes again."""

from __future__ import annotations

from typing import Any

import torch
from gpu_checks.place import Place
from gpu_checks.updates.throughput import EPISODE, open_update

from agentrl_components.sharded.passes.pass_memory import PassSize, Recomputation
from agentrl_components.sharded.passes.recomputation import PassRoom
from agentrl_components.sharded.rank import Rank


class FixedRecomputation(PassRoom):
    """Every pass computes the same again."""

    def __init__(self, rank: Rank, again: Recomputation) -> None:
        self._again = again
        super().__init__([rank.policy], rank.spec, rank.room.bytes)

    def recomputation(self, size: PassSize, room: int) -> Recomputation:
        del size, room
        return self._again


def check_recomputation(place: Place) -> dict[str, Any]:
    """Updates of 65,536 tokens with `update.compile`, by what they compute again: a third of the
    blocks, as many as 80 GB demand if no block is selective; in all blocks what is cheap; and the
    same with logits that are kept. `ratios`: speed of the last two beside the first."""
    opened = open_update(place, 65536, EPISODE, compiled=True, recompute=True)
    layers = opened.rank.policy.shape.layers
    ways = {
        "blocks": Recomputation(blocks=-(-layers // 3)),
        "selective": Recomputation(selective=True),
        "selective, logits kept": Recomputation(selective=True, logits=False),
    }
    found: dict[str, Any] = {}
    for name, again in ways.items():
        opened.rank.room = FixedRecomputation(opened.rank, again)
        opened.seconds(place, 1)
        if not place.cpu:
            torch.cuda.reset_peak_memory_stats()
        seconds = opened.seconds(place, 3)
        found[name] = {"seconds": seconds}
        if not place.cpu:
            found[name]["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    opened.rank.leave()
    first, *others = (sorted(one["seconds"])[1] for one in found.values())
    return found | {"ratios": [first / seconds for seconds in others]}
