"""expand: what follows a phase, written down for whoever drives the phases."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict

from agentrl_components.run.journal import Journal
from agentrl_components.schedule.decision import Decision, decide
from agentrl_components.schedule.history import IterationRecord
from agentrl_components.spec import Horizon
from agentrl_components.storage import keys


def expand(
    journal: Journal,
    horizon: Horizon,
    history: Sequence[IterationRecord],
    rolled_back: Collection[int],
    phase: int,
) -> Decision:
    """The decision after `phase`; a pure function of schedule and history, so asking twice answers
    the same. Raises `ValueError` where the phase is not over."""
    decision = decide(horizon, history, rolled_back)
    if decision.action not in ("finish", "stop") and decision.phase == phase:
        raise ValueError(f"phase {phase} is not over: {decision.reason}")
    data = json.dumps(asdict(decision), indent=1).encode()
    journal.store.replace(keys.phase(phase, keys.DECISION), data)
    journal.state("running", decision.reason, phase=decision.phase, max_turns=decision.max_turns)
    return decision
