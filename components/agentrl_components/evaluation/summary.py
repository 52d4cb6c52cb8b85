"""How well a policy does on held-out tasks.

Success is what each environment says it is. Intervals are 95 %: Wilson's for shares of single
tries, a bootstrap over tasks where a task is tried more than once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from agentrl_components.evaluation.intervals import Interval, bootstrap_mean, mean_pass_at_k, wilson
from agentrl_components.trajectory.record import Ending, Trajectory


class Share(BaseModel):
    """A share of successes with its 95 % interval."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    success: float
    low: float
    high: float
    n: int
    """Tasks."""


class Evaluated(Share):
    """What an evaluation found. Written to the store as it is."""

    name: str
    """random, before, after, or a checkpoint's."""
    max_turns: int
    temperature: float
    samples: int
    """Tries at each task."""
    wellformed: float
    """Share of replies that held one valid action."""
    score: float
    """Mean score, in [0, 1]."""
    raw_score: float
    """Mean in the environment's own unit."""
    turns: float
    """Mean turns of an episode."""
    lost: int
    """Episodes that infrastructure took; not counted anywhere above."""
    pass_at: dict[int, float]
    """k to the chance that one of k tries succeeds; empty for one try."""
    categories: dict[str, Share]
    turn_sweep: dict[int, Share]
    """Allowed turns to success, where asked for."""


def summarise(name: str, episodes: Sequence[Trajectory], samples: int, seed: int) -> Evaluated:
    """The numbers of an evaluation. Raises `ValueError` when every episode was lost."""
    played = [e for e in episodes if e.ending is not Ending.LOST]
    if not played:
        raise ValueError("every episode was lost")
    categories: dict[str, list[Trajectory]] = defaultdict(list)
    for episode in played:
        categories[category(episode)].append(episode)
    replies = [turn.wellformed for e in played for turn in e.turns]
    tries = by_task(played)
    powers = [2**i for i in range(1, samples.bit_length()) if 2**i <= samples]
    return Evaluated(
        **share(played, seed).model_dump(),
        name=name,
        max_turns=played[0].max_turns,
        temperature=played[0].temperature,
        samples=samples,
        wellformed=float(np.mean(replies)) if replies else 0.0,
        score=float(np.mean([e.score for e in played])),
        raw_score=float(np.mean([e.raw_score for e in played])),
        turns=float(np.mean([len(e.turns) for e in played])),
        lost=len(episodes) - len(played),
        pass_at={k: passed(tries, k) for k in ([1, *powers] if samples > 1 else [])},
        categories={name: share(some, seed) for name, some in sorted(categories.items())},
        turn_sweep={},
    )


def category(episode: Trajectory) -> str:
    """What an episode's success is reported under."""
    return f"{episode.environment}/{episode.category}"


def by_task(episodes: Sequence[Trajectory]) -> list[tuple[int, int]]:
    """(successes, tries) of each task."""
    tries: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for episode in episodes:
        tries[episode.environment, episode.group].append(episode.success)
    return [(sum(some), len(some)) for some in tries.values()]


def share(episodes: Sequence[Trajectory], seed: int) -> Share:
    """Success with its interval; tasks are what is counted, not tries."""
    tries = by_task(episodes)
    if all(n == 1 for _, n in tries):
        interval = wilson(sum(s for s, _ in tries), len(tries))
    else:
        interval = bootstrap_mean([s / n for s, n in tries], seed=seed)
    return as_share(interval)


def as_share(interval: Interval) -> Share:
    """An interval as the report has it."""
    return Share(success=interval.estimate, low=interval.low, high=interval.high, n=interval.n)


def passed(tries: Sequence[tuple[int, int]], k: int) -> float:
    """Mean pass@k over the tasks that were tried at least k times."""
    enough = [(s, n) for s, n in tries if n >= k]
    return mean_pass_at_k([(n, s) for s, n in enough], k) if enough else 0.0
