"""rollout and update, side by side for the length of a phase."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentrl_components.context import RunContext
from agentrl_components.errors import RunError, Stopped
from agentrl_components.expansion import Decision, decide
from agentrl_components.history import IterationRecord
from agentrl_components.horizon import position
from agentrl_components.players import Call
from agentrl_components.stages.evaluate import evaluate
from agentrl_components.trajectory import Ending, Trajectory
from agentrl_components.view import Shown

SMOOTHED = 10
"""Iterations that the success shown to a person is averaged over."""


def train(context: RunContext) -> Decision:
    """Iterate until the schedule or an alarm says something else. Every iteration is recorded, and
    what is recorded is enough to go on from."""
    with context.stage("train", total(context)):
        context.view.advance(len(context.history))
        while True:
            decision = iterate(context)
            if decision.action not in ("continue", "hold"):
                return decision
            try:
                context.pause_point()
            except Stopped:
                context.save()
                raise


def iterate(context: RunContext) -> Decision:
    """Play, learn, record, decide."""
    began = time.monotonic()
    number, at = len(context.history), position(context.spec.horizon, context.history)
    episodes = rollout(context, number, at.max_turns)
    played = time.monotonic()
    updated = context.learner.update(episodes, number, learning_rate(context, number))
    context.version += 1
    learned = time.monotonic()

    metrics = measured(context, episodes) | updated.metrics
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
        restored=context.returned,
    )
    context.returned = False
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


def rollout(context: RunContext, number: int, max_turns: int) -> list[Trajectory]:
    """The episodes of an iteration. Groups that say nothing are replaced, as often as allowed; too
    many lost episodes end the run."""
    spec = context.spec
    rounds = spec.algorithm.refill_rounds
    episodes: list[Trajectory] = []
    wanted = spec.rollout.tasks
    for attempt in range(rounds + 1):
        call = Call(
            drawn=context.tasks.take(number * (rounds + 1) + attempt)[:wanted],
            samples=spec.rollout.group_size,
            max_turns=max_turns,
            temperature=spec.rollout.temperature,
            iteration=number,
            purpose=f"train/{attempt}",
            first_group=attempt * spec.rollout.tasks,
        )
        episodes += context.players.play(call, context.version)
        if attempt == rounds:
            break
        wanted = spec.rollout.tasks - len(groups(episodes) - silent(context, episodes))
        if wanted <= 0:
            break
    lost = [e for e in episodes if e.ending is Ending.LOST]
    if len(lost) > spec.rollout.max_lost_share * len(episodes):
        raise RunError(
            f"{len(lost)} of {len(episodes)} episodes of iteration {number} were lost, more than "
            f"spec.rollout.maxLostShare allows; the last one: {lost[-1].note}"
        )
    return episodes


def groups(episodes: Sequence[Trajectory]) -> set[int]:
    """Numbers of the groups that hold an episode."""
    return {e.group for e in episodes if e.ending is not Ending.LOST}


def silent(context: RunContext, episodes: Sequence[Trajectory]) -> frozenset[int]:
    """Groups whose episodes all earned the same, where that matters."""
    return context.learner.silent_groups([e for e in episodes if e.ending is not Ending.LOST])


def measured(context: RunContext, episodes: Sequence[Trajectory]) -> dict[str, float]:
    """What the episodes of an iteration say, in numbers."""
    played = [e for e in episodes if e.ending is not Ending.LOST]
    replies = [turn.wellformed for e in played for turn in e.turns]
    scores = [[e.score for e in played if e.group == group] for group in sorted(groups(episodes))]
    return {
        "train/success": mean([e.success for e in played]),
        "train/score": mean([e.score for e in played]),
        "train/turns": mean([len(e.turns) for e in played]),
        "train/capped": mean([len(e.turns) >= e.max_turns and not e.success for e in played]),
        "train/wellformed": mean(replies),
        "train/reward_std": mean([float(np.std(some)) for some in scores]),
        "train/silent_groups": float(len(silent(context, episodes))),
        "train/episodes": float(len(played)),
        "train/lost": float(len(episodes) - len(played)),
        "train/tokens": float(sum(len(e.ids) for e in played)),
        "train/environment_turns": float(len(replies)),
    }


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return float(np.mean(values)) if values else 0.0


def learning_rate(context: RunContext, number: int) -> float:
    """The step size of iteration `number`."""
    update = context.spec.update
    rate = update.learning_rate
    if number < update.warmup_iterations:
        return rate * (number + 1) / update.warmup_iterations
    done = number / max(1, total(context) - 1)
    if update.schedule == "linear":
        return rate * (1 - (1 - update.final_share) * done)
    if update.schedule == "cosine":
        wave = 0.5 * (1 + math.cos(math.pi * done))
        return rate * (update.final_share + (1 - update.final_share) * wave)
    return rate


def total(context: RunContext) -> int:
    """Most iterations of the run."""
    return sum(phase.iterations for phase in context.spec.horizon.phases)


def with_heldout(context: RunContext, record: IterationRecord) -> IterationRecord:
    """The record with held-out success, where it is time to measure it."""
    every = context.spec.evaluation.every
    done = record.iteration + 1
    if not every or done % every or done >= total(context):
        return record
    success = evaluate(context, f"iteration-{done:06d}").success
    context.view.stage("train", total(context))
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
    tracked = metrics | {
        "horizon/max_turns": float(record.max_turns),
        "horizon/phase": record.phase,
    }
    tracked |= {f"seconds/{name}": value for name, value in seconds.items()}
    context.tracker.metrics(number + 1, tracked)
    tracking = context.spec.tracking
    if number % tracking.episodes_every == 0 and tracking.episodes:
        context.tracker.episodes(number + 1, "train", episodes[: tracking.episodes])
    context.view.iteration(
        Shown(
            iteration=number + 1,
            iterations=total(context),
            phase=record.phase,
            phases=len(context.spec.horizon.phases),
            max_turns=record.max_turns,
            success=mean([r.success for r in context.history[-SMOOTHED:]]),
            tokens_per_s=metrics["train/tokens"] / max(wall, 1e-9),
            seconds_left=context.pace.left(total(context) - number - 1, wall),
        )
    )
    if decision.action != "continue":
        context.view.note(decision.reason)
    for ring in decision.rings:
        context.view.note(f"alarm: {ring.message}")
