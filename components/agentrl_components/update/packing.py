"""Cutting a mini-batch into packs that are computed without padding.

A pack is a row of whole episodes, one after another. Linear layers see exactly its tokens;
attention pads to its longest episode, so packs are made of episodes of like lengths. What follows
an episode's last sampled token is cut off: it earns no gradient and nothing after it looks back at
it.

Legend: N tokens of a pack, B episodes, S sampled tokens, A most choices at a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One episode, ready to train on. Arrays over S run over its sampled tokens in order."""

    ids: NDArray[np.int32]  # [T]
    sampled: NDArray[np.int64]  # [S] index in ids of each sampled token, all above 0
    allowed: tuple[NDArray[np.int32], ...] | None  # [S]
    temperature: float
    columns: dict[str, NDArray[np.float32]]
    """Named numbers per sampled token [S]: advantages, sampler and old log-probs, weights, ..."""

    @property
    def length(self) -> int:
        """Tokens a forward pass needs: up to the one before the last sampled token."""
        return int(self.sampled[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """B episodes in one row."""

    ids_N: NDArray[np.int64]
    lengths: tuple[int, ...]  # [B]
    rows_S: NDArray[np.int64]
    """Index in the row of the token before each sampled one: the state that predicts it."""
    targets_S: NDArray[np.int64]
    """The sampled tokens."""
    allowed_SA: NDArray[np.int64] | None
    """Choices at each sampled token, -1 where there are fewer than A; no choice at all: the
    vocabulary, for a token of an episode that was not confined. None: the vocabulary for all."""
    temperature_S: NDArray[np.float32]
    episode_S: NDArray[np.int64]
    """Which of the B episodes each sampled token belongs to."""
    columns: dict[str, NDArray[np.float32]]  # [S] each
    members: tuple[int, ...]
    """[B] index of each episode in the list that was packed."""


def example(episode: Trajectory, columns: dict[str, NDArray[np.float32]]) -> Example:
    """An episode with its numbers per sampled token."""
    return Example(
        ids=episode.ids,
        sampled=np.flatnonzero(episode.mask),
        allowed=episode.allowed,
        temperature=episode.temperature or 1.0,
        columns=columns,
    )


def plan(lengths: Sequence[int], budget: int, lanes: int) -> list[list[list[int]]]:
    """For each lane its packs, each a list of indices into `lengths`.

    Episodes are sorted by length and cut so that episodes x longest <= budget; a longer episode
    has a pack to itself. Packs go, largest first, to the lane with the least so far. The plan
    depends on lengths alone, so the sum of gradients does not depend on how many processes work on
    the lanes."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    packs: list[list[int]] = []
    for i in order:
        if not packs or lengths[packs[-1][0]] * (len(packs[-1]) + 1) > budget:
            packs.append([])
        packs[-1].append(i)
    out: list[list[list[int]]] = [[] for _ in range(lanes)]
    load = [0] * lanes
    for pack in packs:
        lane = load.index(min(load))
        out[lane].append(pack)
        load[lane] += sum(lengths[i] for i in pack)
    return out


def pack(examples: Sequence[Example], members: Sequence[int]) -> Pack:
    """Lay `members` of `examples` in one row."""
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
    """What could have been sampled at each token of `examples`, as `Pack.allowed_SA` holds it."""
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
    """Ragged choices as [S, A], filled with -1."""
    sizes = np.array([len(row) for row in rows])
    out = np.full((len(rows), max(1, int(sizes.max()))), -1, dtype=np.int64)
    out[np.arange(out.shape[1])[None, :] < sizes[:, None]] = np.concatenate(rows)
    return out
