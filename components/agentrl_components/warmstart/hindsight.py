"""Hindsight relabelling: episodes of random play as demonstrations of goals that they reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agentrl_components.schedule.seeds import derive
from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedGoal:
    """A goal that an episode reached by chance."""

    turn: int
    """Index of the turn that reached it, from 0."""
    phrase: str
    """The goal as text."""


def reached_goal(episode: Trajectory, seed: int) -> ReachedGoal | None:
    """A random turn among those that reached a goal, and one of its goals. The choice is a function
    of the seed and the episode's iteration, task and sample. None if no goal was reached."""
    reached = [i for i, turn in enumerate(episode.turns) if turn.achieved]
    if not reached:
        return None
    rng = np.random.default_rng(
        derive(seed, "hindsight", episode.iteration, episode.task, episode.sample)
    )
    turn = reached[rng.integers(len(reached))]
    goals = episode.turns[turn].achieved
    return ReachedGoal(turn=turn, phrase=goals[rng.integers(len(goals))])


def hindsight_episode(
    episode: Trajectory, seed: int, reword: Callable[[Trajectory, str], Sequence[int]]
) -> Trajectory | None:
    """The episode relabelled with a goal that it reached (hindsight experience replay, arXiv
    1707.01495, for text).

    The episode ends after the turn that `reached_goal` selects, and its prompt is replaced by the
    token ids `reword(episode, goal)`. None if no goal was reached."""
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
