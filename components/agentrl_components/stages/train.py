"""rollout and update, in turn, for the length of a phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from agentrl_components.errors import Stopped
from agentrl_components.rollout.metrics import mean, measured, staleness
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import Shown
from agentrl_components.schedule.decision import Decision, decide
from agentrl_components.schedule.history import IterationRecord
from agentrl_components.schedule.horizon import position
from agentrl_components.schedule.learning_rate import learning_rate, total
from agentrl_components.schedule.staleness import Ahead
from agentrl_components.stages.colocated import Colocated
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.stages.rollout import silent
from agentrl_components.storage import keys
from agentrl_components.tracking import backfill
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.record import Trajectory

SMOOTHED = 10
"""Iterations that the success shown to a person is averaged over."""


class Player(Protocol):
    """Whoever plays: this process, or another that is met in the store."""

    def resume(self, context: RunContext) -> None:
        """Find out what is there. Before anything else."""
        ...

    def play(self, context: RunContext, ahead: Ahead, max_turns: int) -> Sequence[Trajectory]:
        """The episodes of iteration `ahead.number`."""
        ...

    def moved(self, context: RunContext, decision: Decision) -> None:
        """The weights have changed; `decision` is what follows."""
        ...


def train(context: RunContext, phase: int, player: Player | None = None) -> Decision:
    """Iterate until the schedule or an alarm ends `phase`. Every iteration is recorded, and what is
    recorded is enough to go on from. Nothing happens where the phase is over."""
    decision = decide(context.spec.horizon, context.history, context.rolled_back)
    player = player or Colocated(context.store)
    player.resume(context)
    player.moved(context, decision)
    if over(decision, phase):
        return decision
    context.view.stage("train", total(context.spec))
    context.view.advance(len(context.history))
    while not over(decision, phase):
        decision = iterate(context, player)
        player.moved(context, decision)
        try:
            context.pause_point()
        except Stopped:
            context.save()
            raise
    return decision


def over(decision: Decision, phase: int) -> bool:
    """Whether `phase` is done, as the decision has it."""
    return decision.phase != phase or decision.action in ("finish", "stop")


def iterate(context: RunContext, player: Player) -> Decision:
    """Play, learn, record, decide."""
    began = time.monotonic()
    at, ahead = position(context.spec.horizon, context.history), context.ahead()
    number = ahead.number
    episodes = player.play(context, ahead, at.max_turns)
    played = time.monotonic()
    rate = learning_rate(context.spec, number)
    updated = context.learner.update(episodes, number, rate)
    lagged = staleness(episodes, context.version)
    context.version += 1
    learned = time.monotonic()

    metrics = measured(episodes, len(silent(context, episodes))) | updated.metrics
    metrics["train/staleness"] = lagged
    record = IterationRecord(
        iteration=number,
        phase=at.phase,
        max_turns=at.max_turns,
        success=metrics["train/success"],
        wellformed=metrics["train/wellformed"],
        reward_std=metrics["train/reward_std"],
        turns_mean=metrics["train/turns"],
        capped=metrics["train/capped"],
        entropy=metrics.get("update/entropy"),
        grad_norm=metrics["update/grad_norm"] if updated.steps else None,
        mismatch_kl=metrics.get("update/mismatch_kl"),
        staleness=ahead.lag,
        restored=context.returned,
    )
    context.returned = context.anew = False
    record = with_heldout(context, record)
    decision = decide(context.spec.horizon, [*context.history, record], context.rolled_back)
    due = (number + 1) % context.spec.update.checkpoint_every == 0
    saved = due or decision.action not in ("continue", "hold")
    # After a rollback the checkpoint holds the weights that were returned to, not this iteration's.
    record = replace(record, checkpointed=saved and decision.action != "rollback")
    context.history.append(record)
    context.journal.iteration(record, context.version, metrics, decision)
    if decision.action == "rollback":
        assert decision.checkpoint is not None
        context.return_to(decision.checkpoint)
    if saved:
        context.save()
    seconds = {"rollout": played - began, "update": learned - played}
    show(context, record, metrics, episodes, decision, seconds)
    return decision


def with_heldout(context: RunContext, record: IterationRecord) -> IterationRecord:
    """The record with held-out success, where it is time to measure it."""
    every = context.spec.evaluation.every
    done = record.iteration + 1
    if not every or done % every or done >= total(context.spec):
        return record
    success = evaluate(context, keys.evaluation_after(done)).success
    context.view.stage("train", total(context.spec))
    context.view.advance(done)
    return replace(record, heldout=success)


def show(
    context: RunContext,
    record: IterationRecord,
    metrics: dict[str, float],
    episodes: Sequence[Trajectory],
    decision: Decision,
    seconds: dict[str, float],
) -> None:
    """Tell the tracker and the view. Clock readings go here and nowhere else."""
    number, wall = record.iteration, sum(seconds.values())
    for name, value in seconds.items():
        context.journal.wall_seconds[name] = context.journal.wall_seconds.get(name, 0.0) + value
    tracked = metrics | backfill.horizon(record.phase, record.max_turns)
    tracked |= {f"seconds/{name}": value for name, value in seconds.items()}
    context.tracker.metrics(number + 1, tracked)
    tracking = context.spec.tracking
    last = over(decision, record.phase)
    if tracking.episodes and (last or number % tracking.episodes_every == 0):
        sample = episodes[: tracking.episodes]
        context.tracker.episodes(number + 1, "train", sample)
        if last:
            played = keys.phase(record.phase, keys.PLAYED)
            context.store.replace(played, codec.encode(sample))
    context.view.iteration(
        Shown(
            iteration=number + 1,
            iterations=total(context.spec),
            phase=record.phase,
            phases=len(context.spec.horizon.phases),
            max_turns=record.max_turns,
            success=mean([r.success for r in context.history[-SMOOTHED:]]),
            tokens_per_s=metrics["train/tokens"] / max(wall, 1e-9),
            seconds_left=context.pace.left(total(context.spec) - number - 1, wall),
        )
    )
    if decision.action != "continue":
        context.view.note(decision.reason)
    for ring in decision.rings:
        context.view.note(f"alarm: {ring.message}")
