"""Metrics of an evaluation on held-out tasks.

Each environment defines success. Intervals are 95 % confidence intervals: Wilson's if every task is
tried once, and otherwise Wilson's with the effective number of trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import isclose
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from agentrl_components.evaluation.intervals import Interval, clustered_wilson, mean_pass_at_k
from agentrl_components.trajectory.record import Ending, Trajectory

T = TypeVar("T")


class SuccessRate(BaseModel):
    """A success rate with its 95 % confidence interval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    success: float
    low: float
    high: float
    n: int
    """Number of tasks."""


class HeldoutResult(SuccessRate):
    """The result of an evaluation, as it is stored."""

    name: str
    """random, before, after, or the name for an iteration."""
    max_turns: int
    """Turn limit of an episode; the largest one, if environments differ."""
    turn_limits: dict[str, int] = {}
    """Turn limit by environment, if they differ."""
    temperature: float
    samples: int
    """Episodes per task."""
    wellformed: float
    """Share of replies that are one valid action."""
    score: float
    """Mean score, in [0, 1]: as for the success, the mean over tasks of the mean of a task."""
    raw_score: float
    """The same in the environment's own unit."""
    turns: float
    """Mean number of turns per episode."""
    lost: int
    """Episodes lost to infrastructure failures; not included in other metrics."""
    out_of_tokens: int = 0
    """Episodes that ended because their tokens filled the context."""
    pass_at: dict[int, float]
    """pass@k by k: the powers of two up to `samples`, and `samples`. Empty if `samples` is 1."""
    categories: dict[str, SuccessRate]
    environments: dict[str, SuccessRate] = {}
    """By environment, if there are several; without those that were down."""
    missing: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Environments with a share of the tasks that were down. The other numbers are without them,
    so they are not comparable with those of an evaluation that has them."""
    turn_sweep: dict[int, SuccessRate]
    """Success rate by turn limit, for `evaluation.turnSweep`."""
    environment_sweep: dict[str, dict[int, SuccessRate]] = {}
    """The same by environment, if there are several."""

    @property
    def limit(self) -> str:
        """The turn limit for display: `8`, or `3 in rooms, 8 in crafting`."""
        each = [f"{turns} in {name}" for name, turns in self.turn_limits.items()]
        return ", ".join(each) or str(self.max_turns)

    @property
    def turns_allowed(self) -> str:
        """The turn limit in words: `8 turns allowed`, or `turns allowed: 3 in rooms, 8 in
        crafting`."""
        if self.turn_limits:
            return f"turns allowed: {self.limit}"
        return f"{self.limit} turns allowed"

    @property
    def without(self) -> str:
        """What the result lacks: `, without rooms, which was down`. Empty: nothing."""
        if not self.missing:
            return ""
        verb = "was" if len(self.missing) == 1 else "were"
        return f", without {' and '.join(self.missing)}, which {verb} down"

    @property
    def record_fields(self) -> dict[str, float | None]:
        """The fields by which an iteration's record competes with others for the best checkpoint.
        Empty if an environment is missing: the success in the others is no measure of all."""
        if self.missing:
            return {}
        return {"heldout": self.success, "heldout_score": self.graded_score}

    @property
    def graded_score(self) -> float | None:
        """The mean score if it says more than the success, as with partial rewards."""
        return None if isclose(self.score, self.success, abs_tol=1e-9) else self.score


def heldout_result(
    name: str,
    episodes: Sequence[Trajectory],
    samples: int,
    environments: Sequence[str] = (),
) -> HeldoutResult:
    """The result of an evaluation. `environments` are those that have a share of the tasks, also
    if they are down. Raises `ValueError` if every episode was lost."""
    played = [e for e in episodes if e.ending is not Ending.LOST]
    if not played:
        raise ValueError("every episode was lost")
    categories: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in played:
        categories[category(episode)].append(episode)
    replies = [turn.wellformed for e in played for turn in e.turns]
    tries = by_task(played)
    return HeldoutResult(
        **success_rate(played).model_dump(),
        name=name,
        max_turns=max(e.max_turns for e in played),
        turn_limits=_turn_limits(played),
        temperature=played[0].temperature,
        samples=samples,
        wellformed=float(np.mean(replies)) if replies else 0.0,
        score=_mean_over_tasks(played, [e.score for e in played]),
        raw_score=_mean_over_tasks(played, [e.raw_score for e in played]),
        turns=float(np.mean([len(e.turns) for e in played])),
        lost=len(episodes) - len(played),
        out_of_tokens=sum(e.out_of_tokens for e in played),
        pass_at=_pass_at(tries, samples) if samples > 1 else {},
        categories={name: success_rate(some) for name, some in sorted(categories.items())},
        environments=_by_environment({e.environment for e in episodes} | {*environments}, played),
        missing=tuple(sorted({*environments} - {e.environment for e in played})),
        turn_sweep={},
    )


def _turn_limits(played: Sequence[Trajectory]) -> dict[str, int]:
    limits = {e.environment: e.max_turns for e in played}
    return limits if len(set(limits.values())) > 1 else {}


def _by_environment(
    environments: AbstractSet[str], played: Sequence[Trajectory]
) -> dict[str, SuccessRate]:
    if len(environments) == 1:
        return {}
    names = sorted({e.environment for e in played})
    return {name: success_rate([e for e in played if e.environment == name]) for name in names}


def category(episode: Trajectory) -> str:
    """The category under which the episode's success is reported."""
    return f"{episode.environment}/{episode.category}"


def by_task(episodes: Sequence[Trajectory]) -> list[tuple[int, int]]:
    """(tries, successes) of each task."""
    return [(len(some), sum(some)) for some in _of_tasks(episodes, [e.success for e in episodes])]


def _mean_over_tasks(episodes: Sequence[Trajectory], values: Sequence[float]) -> float:
    """The mean over tasks of the mean of a task's `values`, which has one for each episode: an
    episode that was lost does not change the weight of its task."""
    return float(np.mean([float(np.mean(some)) for some in _of_tasks(episodes, values)]))


def _of_tasks(episodes: Sequence[Trajectory], values: Sequence[T]) -> list[list[T]]:
    """The `values` of the episodes of each task."""
    found: dict[tuple[str, int], list[T]] = defaultdict(list)
    for episode, value in zip(episodes, values, strict=True):
        found[episode.environment, episode.group].append(value)
    return list(found.values())


def success_rate(episodes: Sequence[Trajectory]) -> SuccessRate:
    """The success rate with its interval. The unit of observation is the task, not the episode."""
    return from_interval(clustered_wilson(by_task(episodes)))


def from_interval(interval: Interval) -> SuccessRate:
    """The success rate of an interval."""
    return SuccessRate(
        success=interval.estimate, low=interval.low, high=interval.high, n=interval.n
    )


def _pass_at(tries: Sequence[tuple[int, int]], samples: int) -> dict[int, float]:
    """Mean pass@k over the tasks with at least k tries, for the powers of two up to `samples` and
    `samples` itself. Without a k that no task was tried, since episodes were lost."""
    powers = [2**i for i in range(samples.bit_length())]
    enough = {k: [one for one in tries if one[0] >= k] for k in sorted({*powers, samples})}
    return {k: mean_pass_at_k(some, k) for k, some in enough.items() if some}
