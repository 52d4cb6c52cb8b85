"""The decision after an iteration: extend the horizon, hold it, roll back, or stop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Literal

from agentrl_components.schedule.alarms import fired_alarms
from agentrl_components.schedule.history import best_checkpoint, comparable
from agentrl_components.schedule.horizon import Position, position
from agentrl_components.schedule.record import Action, Decision, FiredAlarm, IterationRecord
from agentrl_components.spec.fields.horizon import Horizon


def decide(
    horizon: Horizon,
    history: Sequence[IterationRecord],
    rolled_back_phases: Collection[int] = (),
) -> Decision:
    """The decision after the last record of `history`.

    A pure function: asked again after a crash, it gives the same answer. If several alarms fire,
    `stop` takes precedence over `rollback`, and `rollback` over `hold`. A rollback happens at most
    once per phase, does not move the schedule, and needs a checkpoint of an iteration before the
    last one: without one, its alarm is only recorded.

    Args:
        horizon: the manifest's schedule.
        history: every iteration so far, in order.
        rolled_back_phases: phases in which a rollback has been done already.
    """
    fired = fired_alarms(horizon.alarms, history)
    at = position(horizon, history)
    action, reason = _scheduled(horizon, at, history, fired)
    checkpoint: int | None = None
    stop = _first(fired, "stop")
    rollback = _first(fired, "rollback")
    if stop is not None:
        action, reason = "stop", stop.message
    elif rollback is not None and not at.finished and history[-1].phase not in rolled_back_phases:
        # A checkpoint of the last iteration, if there is one, was saved because of the decision.
        best = best_checkpoint(history[:-1], horizon.window)
        if best is not None:
            action, checkpoint = "rollback", best.iteration
            reason = f"{rollback.message}; back to the checkpoint of iteration {best.iteration}"
    return Decision(
        action=action,
        phase=at.phase,
        max_turns=at.max_turns,
        reason=reason,
        alarms=fired,
        checkpoint=checkpoint,
    )


def _first(
    fired: Sequence[FiredAlarm], action: Literal["hold", "stop", "rollback"]
) -> FiredAlarm | None:
    return next((alarm for alarm in fired if alarm.action == action), None)


def _scheduled(
    horizon: Horizon,
    at: Position,
    history: Sequence[IterationRecord],
    fired: Sequence[FiredAlarm],
) -> tuple[Action, str]:
    """What the schedule decides, with `hold` alarms but without `stop` and `rollback`."""
    if at.finished:
        return "finish", f"the schedule is complete after {len(history)} iterations"
    hold = _first(fired, "hold")
    if at.held and hold is not None:
        return "hold", f"the horizon stays at {at.max_turns} turns: {hold.message}"
    if history and at.iteration_in_phase == 0:
        before = horizon.phases[at.phase - 1].max_turns
        return "advance", (
            f"phase {at.phase} is over{_why(horizon, at.phase - 1, history)}: "
            f"the horizon goes from {before} to {at.max_turns} turns"
        )
    planned = horizon.phases[at.phase].iterations
    return (
        "continue",
        f"phase {at.phase + 1} has done {at.iteration_in_phase} of {planned} iterations",
    )


def _why(horizon: Horizon, phase: int, history: Sequence[IterationRecord]) -> str:
    """The rule that ended `phase`, as the middle of a sentence."""
    done = sum(record.phase == phase for record in history)
    if done >= horizon.phases[phase].iterations:
        return f" after its {done} iterations"
    recent = fmean(record.success for record in comparable(history, horizon.window))
    if horizon.advance == "success":
        return f", {recent:.1%} success reaching {horizon.success_above:.1%}"
    return f", success levelling off at {recent:.1%}"
