"""expand: decide what follows a phase, and store the decision for whoever drives the phases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agentrl_components.errors import StoreError
from agentrl_components.run.journal import Journal
from agentrl_components.schedule.decision import decide
from agentrl_components.schedule.record import Decision, IterationRecord
from agentrl_components.spec import Horizon
from agentrl_components.storage import keys


def expand(
    journal: Journal,
    horizon: Horizon,
    history: Sequence[IterationRecord],
    rolled_back: Collection[int],
    phase: int,
) -> Decision:
    """Store and return the decision after `phase`. It is a pure function of schedule and history,
    so a repeated call gives the same decision. Raises `StoreError` if the phase is not over."""
    decision = decide(horizon, history, rolled_back)
    check_over(decision, phase, len(history))
    data = decision.model_dump_json(indent=1).encode()
    journal.store.replace(keys.phase(phase, keys.DECISION), data)
    journal.write_state(
        "running", decision.reason, phase=decision.phase, max_turns=decision.max_turns
    )
    return decision


def check_over(decision: Decision, phase: int, done: int) -> None:
    """Raise `StoreError` if `decision`, the one after `done` iterations, does not end `phase`: the
    checkpoint at its end is damaged or gone, and training goes on from the one before."""
    if not decision.ends_phase(phase):
        raise StoreError(
            f"phase {phase + 1} is not over after iteration {done}, from which the run resumed: "
            "its last checkpoint is damaged or gone; start the phase again: it repeats the "
            "iterations after that one"
        )


def final_state(decision: Decision, done: int) -> dict[str, Any]:
    """The fields of `RunState` at the end of a run that `decision` ends after `done` iterations;
    none if the run goes on."""
    if decision.action == "finish":
        return {"status": "succeeded", "message": f"{done} iterations"}
    if decision.action == "stop":
        message = f"stopped after iteration {done}: {decision.reason}"
        return {"status": "failed", "message": message, "reason": "CollapseError", "final": True}
    return {}
