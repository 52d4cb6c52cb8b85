"""The decision after an iteration: whether the horizon grows, stays, or the run turns back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from agentrl_components.schedule.alarms import Ring, ringing
from agentrl_components.schedule.history import IterationRecord, best_checkpoint
from agentrl_components.schedule.horizon import Position, position
from agentrl_components.spec.fields.horizon import Horizon

Action = Literal["continue", "advance", "hold", "rollback", "stop", "finish"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens next, and why."""

    action: Action
    """`continue`: the phase goes on. `advance`: the next one begins. `hold`: the phase should have
    ended, but an alarm keeps the horizon. `rollback`: go on from `checkpoint`. `stop`: an alarm
    ends the run. `finish`: the schedule is done."""
    phase: int
    """Of the next iteration; of the last one where there is no next."""
    max_turns: int
    """Of that phase."""
    reason: str
    """A sentence for people."""
    rings: tuple[Ring, ...] = ()
    """Every alarm that rings, whatever its action."""
    checkpoint: int | None = None
    """For `rollback`: the iteration whose checkpoint to return to."""


def decide(
    horizon: Horizon,
    history: Sequence[IterationRecord],
    rolled_back_phases: Collection[int] = (),
) -> Decision:
    """The decision after the last record of `history`.

    A pure function: asked again after a crash, it answers the same. Of alarms that ring together,
    stop goes before rollback, and rollback before hold. A rollback happens once per phase, does not
    move the schedule, and needs a checkpoint: without one its alarm is only reported.

    Args:
        horizon: the manifest's.
        history: every iteration so far, in order.
        rolled_back_phases: phases in which a rollback has already been done.
    """
    rings = ringing(horizon.alarms, history)
    at = position(horizon, history)
    action, reason = _scheduled(horizon, at, history, rings)
    checkpoint: int | None = None
    stopping = _first(rings, "stop")
    returning = _first(rings, "rollback")
    if stopping is not None:
        action, reason = "stop", stopping.message
    elif returning is not None and not at.finished and history[-1].phase not in rolled_back_phases:
        best = best_checkpoint(history, horizon.window)
        if best is not None:
            action, checkpoint = "rollback", best.iteration
            reason = f"{returning.message}; back to the checkpoint of iteration {best.iteration}"
    return Decision(
        action=action,
        phase=at.phase,
        max_turns=at.max_turns,
        reason=reason,
        rings=rings,
        checkpoint=checkpoint,
    )


def _first(rings: Sequence[Ring], action: Literal["hold", "stop", "rollback"]) -> Ring | None:
    return next((ring for ring in rings if ring.action == action), None)


def _scheduled(
    horizon: Horizon, at: Position, history: Sequence[IterationRecord], rings: Sequence[Ring]
) -> tuple[Action, str]:
    """What the schedule alone would do, held by alarms or not."""
    if at.finished:
        return "finish", f"the schedule is done after {len(history)} iterations"
    holding = _first(rings, "hold")
    if at.held and holding is not None:
        return "hold", f"the horizon stays at {at.max_turns} turns: {holding.message}"
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
    done = sum(record.phase == phase for record in history)
    if done >= horizon.phases[phase].iterations:
        return f" after its {done} iterations"
    recent = fmean(record.success for record in history[-horizon.window :])
    if horizon.advance == "success":
        return f", {recent:.1%} success reaching {horizon.success_above:.1%}"
    return f", success resting at {recent:.1%}"
