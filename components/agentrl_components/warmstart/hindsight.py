"""Imitation before reinforcement learning: of given play, of relabelled random play, of own
successes.

Legend: T tokens of an episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentrl_components.schedule.seeds import derive
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.packing import Example

Relabel = Callable[[str, str], str]
"""(first observation, goal) to the first observation with that goal."""


def imitation(episode: Trajectory, observation_weight: float, path_weight: float = 1.0) -> Example:
    """Every token but the first as a target: the last reply, forced tokens included, at weight 1,
    the replies before it at `path_weight`, all else at `observation_weight`. Confinement to
    admissible actions is not imitated."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A goal that an episode happened to reach."""

    turn: int
    """The turn that reached it, counted from 0."""
    phrase: str


def reached_goal(episode: Trajectory, seed: int) -> Reached | None:
    """A turn that achieved something, and one of its goals, chosen at random: a function of the
    seed and the episode's place in the run. None when nothing was achieved."""
    reached = [i for i, turn in enumerate(episode.turns) if turn.achieved]
    if not reached:
        return None
    rng = np.random.default_rng(
        derive(seed, "hindsight", episode.iteration, episode.task, episode.sample)
    )
    turn = reached[rng.integers(len(reached))]
    goals = episode.turns[turn].achieved
    return Reached(turn=turn, phrase=goals[rng.integers(len(goals))])


def in_hindsight(
    episode: Trajectory, seed: int, reword: Callable[[Trajectory, str], Sequence[int]]
) -> Trajectory | None:
    """The episode as if one of the goals it happened to reach had been its goal (hindsight
    experience replay, arXiv 1707.01495, in words).

    It is cut after the turn that `reached_goal` chooses, and its opening is replaced by
    `reword(episode, goal)`, token ids. None when nothing was achieved."""
    goal = reached_goal(episode, seed)
    if goal is None:
        return None
    last, opening = goal.turn, reword(episode, goal.phrase)
    first, end = episode.turns[0].start, episode.turns[last].end
    shift = len(opening) - first
    ids = np.concatenate([np.asarray(opening, dtype=np.int32), episode.ids[first:end]])
    turns = tuple(
        replace(turn, start=turn.start + shift, end=turn.end + shift)
        for turn in episode.turns[: last + 1]
    )
    blank = np.zeros(len(ids))
    return replace(
        episode,
        ids=ids,
        mask=blank.astype(np.bool_),
        logprobs=blank.astype(np.float32),
        allowed=None,
        turns=turns,
        success=True,
        score=1.0,
    )


def batches(count: int, size: int, epochs: int, seed: int) -> Iterator[list[int]]:
    """Every example once per epoch, in an order of its own."""
    for epoch in range(epochs):
        order = np.random.default_rng(derive(seed, "imitation", epoch)).permutation(count)
        for start in range(0, count, size):
            yield [int(i) for i in order[start : start + size]]


def cosine(step: int, steps: int, rate: float) -> float:
    """Step size that falls from `rate` to a tenth of it."""
    return rate * (0.55 + 0.45 * math.cos(math.pi * step / max(1, steps)))
