"""Training examples for imitation learning, and their batches.

Legend: T tokens of an episode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from agentrl_components.schedule.seeds import derive
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.packing import Example


def imitation_example(
    episode: Trajectory, observation_weight: float, path_weight: float = 1.0
) -> Example:
    """The episode as an example with all tokens but the first as targets.

    The loss weight is 1 on the last reply including its forced tokens, `path_weight` on earlier
    replies, and `observation_weight` on all other tokens. The whole vocabulary is allowed, even if
    the episode was sampled with admissible actions."""
    weight_T = np.full(len(episode.ids), observation_weight, dtype=np.float32)
    for turn in episode.turns:
        weight_T[turn.start : turn.end] = 1.0 if turn is episode.turns[-1] else path_weight
    return Example(
        ids=episode.ids,
        sampled=np.arange(1, len(episode.ids)),
        allowed=None,
        temperature=1.0,
        columns={"weight": weight_T[1:]},
    )


def within_context(episodes: Iterable[Trajectory], longest: int) -> list[Trajectory]:
    """The episodes that fit into `longest` tokens. A longer one is cut after its last reply, and
    left out if that still exceeds the limit: random play, and openings with a rewritten goal, are
    not limited by the context."""
    return [
        _without_rest(episode) if len(episode.ids) > longest else episode
        for episode in episodes
        if episode.turns[-1].end <= longest
    ]


def _without_rest(episode: Trajectory) -> Trajectory:
    """The episode up to the end of its last reply."""
    end = episode.turns[-1].end
    return replace(
        episode,
        ids=episode.ids[:end],
        mask=episode.mask[:end],
        logprobs=episode.logprobs[:end],
        allowed=None,
    )


def shuffled_batches(count: int, size: int, epochs: int, seed: int) -> Iterator[list[int]]:
    """Batches of indices below `count`. Every epoch has each index once, in a random order that
    depends on `seed` and the epoch."""
    for epoch in range(epochs):
        order = np.random.default_rng(derive(seed, "imitation", epoch)).permutation(count)
        for start in range(0, count, size):
            yield [int(i) for i in order[start : start + size]]
