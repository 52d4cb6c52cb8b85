"""Distribution of packs over ranks.

All ranks gather each layer together, so they have to make the same number of passes, and a round
of passes takes as long as its largest pack. Packs are therefore dealt in order of size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl_components.update.packing import Example, Pack, pack, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The packs of one rank."""

    packs: tuple[Pack, ...]
    """As many as every other rank has."""
    counted: int
    """The first packs are counted. The others are repetitions that fill the last round: their
    results are multiplied by 0 or dropped."""


def deal(examples: Sequence[Example], budget: int, ranks: int) -> list[Share]:
    """The share of each rank. A pack has at most `budget` tokens, unless an example is longer by
    itself. Packs are of similar size, and fill whole rounds where they can."""
    if not examples:
        return [Share(packs=(), counted=0)] * ranks
    lanes = plan([e.length for e in examples], budget, ranks)
    members = [some for lane in lanes for some in lane]
    members.sort(key=lambda some: (-sum(examples[i].length for i in some), some))
    packs = [pack(examples, some) for some in members]
    passes = -(-len(packs) // ranks)
    shares = []
    for rank in range(ranks):
        mine = packs[rank::ranks]
        filled = (*mine, *[packs[-1]] * (passes - len(mine)))
        shares.append(Share(packs=filled, counted=len(mine)))
    return shares
