"""expand: what comes next, written down for whoever drives the phases."""

from __future__ import annotations

import json
from dataclasses import asdict

from agentrl_components import layout
from agentrl_components.context import RunContext
from agentrl_components.errors import CollapseError
from agentrl_components.expansion import Decision, decide


def expand(context: RunContext) -> Decision:
    """The decision after everything so far; a pure function of schedule and history, so asking
    twice answers the same. Raises `CollapseError` where an alarm says stop."""
    decision = decide(context.spec.horizon, context.history, context.rolled_back)
    data = json.dumps(asdict(decision), indent=1).encode()
    context.store.replace(layout.phase(decision.phase, "decision.json"), data)
    context.journal.state("running", decision.reason)
    if decision.action == "stop":
        raise CollapseError(f"stopped after iteration {len(context.history)}: {decision.reason}")
    return decision
