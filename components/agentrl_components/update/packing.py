"""Pack the episodes of a mini-batch into rows that linear layers compute without padding.

A pack is a row of whole episodes, one after another. Attention pads to the longest episode of the
pack, so packs hold episodes of similar length. Tokens after an episode's last sampled token are cut
off: they have no gradient and no later token attends to them.

Legend: N tokens of a pack, B episodes, S sampled tokens, A most choices at a token.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One episode as the objectives read it. Arrays over S are in the order of sampled tokens."""

    ids: NDArray[np.int32]  # [T]
    sampled: NDArray[np.int64]  # [S] index in ids of each sampled token, at least 1
    allowed: tuple[NDArray[np.int32], ...] | None  # [S]
    temperature: float
    columns: dict[str, NDArray[np.float32]]
    """Numbers per sampled token [S] by name: advantages, log-probabilities, weights, ..."""

    @property
    def length(self) -> int:
        """Tokens of a forward pass: all before the last sampled token."""
        return int(self.sampled[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """B episodes in one row."""

    ids_N: NDArray[np.int64]
    lengths: tuple[int, ...]  # [B]
    rows_S: NDArray[np.int64]
    """Index in the row of the token before each sampled one, whose hidden state predicts it."""
    targets_S: NDArray[np.int64]
    """The sampled tokens."""
    allowed_SA: NDArray[np.int64] | None
    """Allowed token ids at each sampled token, padded with -1 to A. A row of -1 only, or None for
    the whole pack: the whole vocabulary was allowed."""
    temperature_S: NDArray[np.float32]
    episode_S: NDArray[np.int64]
    """Number of the episode in the pack that each sampled token belongs to, from 0."""
    columns: dict[str, NDArray[np.float32]]  # [S] each
    members: tuple[int, ...]
    """[B] index of each episode in the list that was packed."""

    @property
    def free(self) -> int:
        """Sampled tokens, if the whole vocabulary was allowed at each; else 0."""
        return len(self.targets_S) if self.allowed_SA is None else 0


def example(episode: Trajectory, columns: dict[str, NDArray[np.float32]]) -> Example:
    """The example of an episode, with `columns` per sampled token."""
    return Example(
        ids=episode.ids,
        sampled=np.flatnonzero(episode.mask),
        allowed=episode.allowed,
        temperature=episode.temperature or 1.0,
        columns=columns,
    )


def plan(lengths: Sequence[int], budget: int, lanes: int) -> list[list[list[int]]]:
    """The packs of each lane. A pack is a list of indices into `lengths`.

    Episodes are sorted by length and cut into packs with episodes x longest <= budget; a longer
    episode is a pack of its own. As many packs are made as the budget requires, or a few more, up
    to a multiple of `lanes`, if the largest one has fewer tokens then: no lane should wait long for
    another. Each pack, largest first, goes to the lane with the fewest tokens. The plan depends on
    `lengths`, `budget` and `lanes` only, so that the sum of gradients does not depend on the number
    of processes."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    total = sum(lengths)
    fewest = len(_cut(order, lengths, budget, total))
    count = min(-(-fewest // lanes) * lanes, len(lengths))
    limits = range(total + 1)
    fits = bisect_left(limits, True, key=lambda n: len(_cut(order, lengths, budget, n)) <= count)
    packs = _cut(order, lengths, budget, limits[fits])
    packs.sort(key=lambda some: -sum(lengths[i] for i in some))
    out: list[list[list[int]]] = [[] for _ in range(lanes)]
    load = [0] * lanes
    for pack in packs:
        lane = load.index(min(load))
        out[lane].append(pack)
        load[lane] += sum(lengths[i] for i in pack)
    return out


def _cut(order: Sequence[int], lengths: Sequence[int], budget: int, tokens: int) -> list[list[int]]:
    """Episodes in `order`, longest first, cut into as few packs as possible with episodes x longest
    <= budget and at most `tokens` tokens. An episode that is too long is a pack of its own."""
    packs: list[list[int]] = []
    held = 0
    for i in order:
        held += lengths[i]
        if not packs or held > tokens or lengths[packs[-1][0]] * (len(packs[-1]) + 1) > budget:
            packs.append([])
            held = lengths[i]
        packs[-1].append(i)
    return packs


def pack(examples: Sequence[Example], members: Sequence[int]) -> Pack:
    """Pack the examples with indices `members` into one row."""
    chosen = [examples[i] for i in members]
    lengths = tuple(e.length for e in chosen)
    starts = np.cumsum((0, *lengths[:-1]))
    return Pack(
        ids_N=np.concatenate([e.ids[: e.length] for e in chosen]).astype(np.int64),
        lengths=lengths,
        rows_S=np.concatenate([e.sampled - 1 + s for e, s in zip(chosen, starts, strict=True)]),
        targets_S=np.concatenate([e.ids[e.sampled] for e in chosen]).astype(np.int64),
        allowed_SA=choices(chosen),
        temperature_S=np.concatenate(
            [np.full(len(e.sampled), e.temperature, dtype=np.float32) for e in chosen]
        ),
        episode_S=np.repeat(np.arange(len(chosen)), [len(e.sampled) for e in chosen]),
        columns={
            name: np.concatenate([e.columns[name] for e in chosen]) for name in chosen[0].columns
        },
        members=tuple(members),
    )


def choices(examples: Sequence[Example]) -> NDArray[np.int64] | None:
    """`Pack.allowed_SA` of `examples`: the allowed token ids at each sampled token."""
    if all(e.allowed is None for e in examples):
        return None
    everything = np.empty(0, dtype=np.int32)
    rows = [
        row
        for e in examples
        for row in ([everything] * len(e.sampled) if e.allowed is None else e.allowed)
    ]
    return padded(rows)


def padded(rows: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """Rows of different lengths as one array [S, A], padded with -1."""
    sizes = np.array([len(row) for row in rows])
    out = np.full((len(rows), max(1, int(sizes.max()))), -1, dtype=np.int64)
    out[np.arange(out.shape[1])[None, :] < sizes[:, None]] = np.concatenate(rows)
    return out
