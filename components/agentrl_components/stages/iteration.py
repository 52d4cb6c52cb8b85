"""One iteration of the training loop: what is played, and the record of what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.rollout.metrics import (
    completed,
    environment_metrics,
    mean,
    staleness,
    training_metrics,
)
from agentrl_components.run.context import RunContext
from agentrl_components.schedule.horizon import position
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.update.learner import Updated


@dataclass(frozen=True, slots=True, kw_only=True)
class NextIteration:
    """The iteration that comes next."""

    number: int
    """Counted over the whole run, from 0."""
    phase: int
    max_turns: int
    """The horizon."""
    window: PlayWindow
    """This iteration and those that may be played ahead."""

    @property
    def policy(self) -> int:
        """The policy that plays it."""
        return self.window.policy(self.number)


def next_iteration(context: RunContext) -> NextIteration:
    """The iteration after the last record of the history."""
    at, window = position(context.spec.horizon, context.history), context.play_window()
    return NextIteration(
        number=window.number, phase=at.phase, max_turns=at.max_turns, window=window
    )


def iteration_record(
    context: RunContext,
    it: NextIteration,
    episodes: Sequence[Trajectory],
    updated: Updated,
    streamed: Mapping[str, float],
) -> IterationRecord:
    """The record of an iteration whose update is done; raises the policy version. `streamed` are
    the metrics of the stream that its episodes came from, if they streamed."""
    silent = silent_groups(context, episodes)
    metrics: dict[str, float | None] = {
        **training_metrics(episodes, len(silent), context.spec.algorithm.reward),
        **environment_metrics(episodes, [e.name for e in context.spec.environments]),
        **updated.metrics,
        "train/staleness": mean(staleness(episodes, context.training.version)),
        **streamed,
    }
    if not updated.steps:
        metrics["update/grad_norm"] = None
    context.training.version += 1
    return IterationRecord(
        iteration=it.number,
        phase=it.phase,
        max_turns=it.max_turns,
        version=context.training.version,
        staleness=it.window.lag,
        metrics=metrics,
        restored=context.training.after_rollback,
    )


def silent_groups(context: RunContext, episodes: Sequence[Trajectory]) -> frozenset[int]:
    """Groups without a learning signal: all their episodes earned the same reward."""
    return context.learner.silent_groups(completed(episodes))
