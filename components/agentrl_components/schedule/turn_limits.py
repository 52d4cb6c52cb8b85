"""Turn limits by environment: a pure function of the manifest and the phase."""

from __future__ import annotations

from agentrl_components.spec.fields.run import RunSpec


def turn_limits(spec: RunSpec, phase: int) -> dict[str, int]:
    """The turn limit in `phase` of each environment that has limits of its own, by name. The
    others have that of the schedule."""
    return {
        each.name: each.max_turns[min(phase, len(each.max_turns) - 1)]
        for each in spec.environments
        if each.max_turns
    }
