"""Reports a finished iteration to the tracker and the progress view.

Clock readings are reported here and stored nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentrl_components.rollout.metrics import mean
from agentrl_components.run.context import RunContext
from agentrl_components.run.progress import IterationProgress
from agentrl_components.schedule.history import (
    silent_at_the_end,
    silent_message,
    skipped_at_the_end,
)
from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec.turn_limits import all_turn_limits, range_of
from agentrl_components.storage import keys
from agentrl_components.tracking import backfill
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.record import Trajectory

OUT_OF_TOKENS = "train/out_of_tokens"
SILENT = 3
"""Iterations in a row that changed no weights after which a note is shown."""
SMOOTHED = 10
"""Iterations that the displayed success is averaged over."""


def report_iteration(
    context: RunContext,
    record: IterationRecord,
    episodes: Sequence[Trajectory],
    seconds: Mapping[str, float],
    measured: Mapping[str, float],
) -> None:
    """Send an iteration to the tracker and the view. `seconds` are wall-clock seconds by stage, and
    `measured` are further metrics that differ from run to run."""
    for name, value in seconds.items():
        context.add_seconds(name, value)
    timings = {f"seconds/{name}": value for name, value in seconds.items()}
    context.tracker.metrics(
        record.iteration + 1, backfill.iteration_metrics(record) | timings | dict(measured)
    )
    _report_episodes(context, record, episodes)
    context.view.iteration(_progress(context, record, seconds))
    decision = record.decision
    assert decision is not None
    if decision.action != "continue":
        context.view.note(decision.reason)
    _warn_of_small_context(context, record)
    if silent_at_the_end(context.history) == SILENT:
        context.view.note(silent_message(f"the last {SILENT}"))
    if skipped_at_the_end(context.history) == SILENT:
        context.view.note(
            f"the last {SILENT} iterations changed no weights: the gradients of all their "
            "optimizer steps were not finite (update/skipped_steps); lower "
            "spec.update.learningRate, or set the alarm gradNormAbove"
        )
    for alarm in decision.alarms:
        context.view.note(f"alarm: {alarm.message}")


def _warn_of_small_context(context: RunContext, record: IterationRecord) -> None:
    """Note, once a phase, that episodes ended because they filled the context."""
    share = record.metrics.get(OUT_OF_TOKENS)
    earlier = [one for one in context.history[:-1] if one.phase == record.phase]
    if share and not any(one.metrics.get(OUT_OF_TOKENS) for one in earlier):
        context.view.note(
            f"{share:.0%} of the episodes of iteration {record.iteration + 1} ended because they "
            f"filled the context of {context.spec.model.context} tokens; raise spec.model.context "
            "or lower the number of turns"
        )


def _report_episodes(
    context: RunContext, record: IterationRecord, episodes: Sequence[Trajectory]
) -> None:
    """Send a sample of the episodes, if it is due; keep that of a phase's last iteration."""
    tracking, decision = context.spec.tracking, record.decision
    last = decision is not None and decision.ends_phase(record.phase)
    if tracking.episodes and (last or record.iteration % tracking.episodes_every == 0):
        sample = episodes[: tracking.episodes]
        context.tracker.episodes(record.iteration + 1, "train", sample)
        if last:
            context.store.replace(keys.phase(record.phase, keys.PLAYED), codec.encode(sample))


def _progress(
    context: RunContext, record: IterationRecord, seconds: Mapping[str, float]
) -> IterationProgress:
    whole = sum(seconds.values())
    # Streamed episodes are played during the update too.
    playing = whole if context.spec.rollout.max_staleness else seconds["rollout"]
    sampled = record.metrics.get("train/sampled_tokens") or 0.0
    total = total_iterations(context.spec.horizon)
    done = record.iteration + 1
    recent = context.history[-SMOOTHED:]
    success, score = mean([r.success for r in recent]), mean([r.score for r in recent])
    return IterationProgress(
        iteration=done,
        iterations=total,
        phase=record.phase,
        phases=len(context.spec.horizon.phases),
        turns=range_of(all_turn_limits(context.spec, record.phase).values()),
        success=success,
        score=None if score == success else score,
        tokens_per_s=sampled / max(playing, 1e-9),
        seconds_left=context.time_left.estimate(total - done, whole),
    )
