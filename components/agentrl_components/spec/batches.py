"""The batches of episodes that a run plays: for its updates, its evaluations and its warm start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.turn_limits import all_turn_limits

IN_TRAINING, IN_EVALUATIONS, IN_WARM_START = "in training", "in evaluations", "in the warm start"
"""When a batch is played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Episodes that are played at the same time, as far as `rollout.concurrency` allows."""

    when: str
    tasks: int
    samples: int
    """Episodes of each task."""
    turns: int
    """Turn limit of an episode in the environment that allows the most turns."""
    sampled: bool
    """Whether the model plays all of the episodes, and not the random policy."""

    @property
    def episodes(self) -> int:
        """Episodes of the batch."""
        return self.tasks * self.samples

    def share(self, weight: float, weights: float) -> int:
        """The most episodes in an environment of this weight, of all `weights` together."""
        return math.ceil(self.tasks * weight / weights) * self.samples


def batches(spec: RunSpec) -> list[Batch]:
    """The largest batches of a run, of each kind one. Held-out tasks are as many as the manifest
    asks for, although an environment may have fewer."""
    rollout, evaluation, warm = spec.rollout, spec.evaluation, spec.warm_start
    phases = range(len(spec.horizon.phases))
    found = [
        Batch(
            when=IN_TRAINING,
            tasks=rollout.tasks,
            samples=rollout.group_size,
            turns=max(most_turns(spec, phase) for phase in phases),
            sampled=True,
        ),
        Batch(
            when=IN_EVALUATIONS,
            tasks=evaluation.tasks,
            samples=evaluation.samples,
            turns=max(
                (evaluation.max_turns or most_turns(spec, phases[-1]), *evaluation.turn_sweep)
            ),
            sampled=True,
        ),
    ]
    if warm is not None and warm.algorithm != "sft":
        found.append(
            Batch(
                when=IN_WARM_START,
                tasks=warm.episodes,
                samples=1,
                turns=warm.max_turns,
                sampled=warm.algorithm == "filtered-imitation",
            )
        )
    return found


def most_turns(spec: RunSpec, phase: int) -> int:
    """The turn limit in a phase of the environment that allows the most turns."""
    return max(all_turn_limits(spec, phase).values())
