"""Turn limits by environment: a pure function of the manifest and the phase."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentrl_components.spec.fields.run import RunSpec


def turn_limits(spec: RunSpec, phase: int) -> dict[str, int]:
    """The turn limit in `phase` of each environment that has limits of its own, by name. The
    others have that of the schedule."""
    return {
        each.name: own_limit(each.max_turns, phase) for each in spec.environments if each.max_turns
    }


def own_limit(limits: Sequence[int], phase: int) -> int:
    """The turn limit in `phase` of an environment with these limits: the last one holds for all
    further phases."""
    return limits[min(phase, len(limits) - 1)]


def all_turn_limits(spec: RunSpec, phase: int) -> dict[str, int]:
    """The turn limit in `phase` of every environment, by name."""
    scheduled = {each.name: spec.horizon.phases[phase].max_turns for each in spec.environments}
    return scheduled | turn_limits(spec, phase)


def range_of(limits: Collection[int]) -> str:
    """Turn limits for display: `8` if they agree, else the range `3 to 8`."""
    low, high = min(limits), max(limits)
    return f"{low}" if low == high else f"{low} to {high}"
