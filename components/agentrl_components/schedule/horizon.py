"""Where a run stands in its schedule: a pure function of the schedule and the history.

There is no counter to save or restore. A run that resumes asks the same question of the same
records and gets the same answer as one that was never interrupted. A record's own `phase` is what
was played; the schedule only says whether that phase is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentrl_components.schedule.alarms import moving_means, ringing
from agentrl_components.schedule.history import IterationRecord, since_restored
from agentrl_components.spec.fields.horizon import Horizon, Phase

__all__ = ["PAPER_SCHEDULES", "IterationRecord", "Position", "position"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The iteration that comes next."""

    phase: int
    """From 0. The last one's where the run is finished."""
    iteration_in_phase: int
    """Iterations of the phase that are done."""
    max_turns: int
    """Turns its episodes may take."""
    finished: bool = False
    """Nothing comes next."""
    held: bool = False
    """The phase is over by its own rule, but an alarm with `action: hold` keeps the horizon."""


def position(horizon: Horizon, history: Sequence[IterationRecord]) -> Position:
    """What the schedule says after the last record.

    A phase ends after its iterations, or earlier as `advance` says, and not while a `hold` alarm
    rings. Held time is taken from the phases that follow: a run never takes more iterations than
    its phases together. Time before a rollback counts as spent; success before it does not count.
    """
    last = len(horizon.phases) - 1
    phase = min(history[-1].phase, last) if history else 0
    records = [record for record in history if record.phase == phase]
    spent = len(history) >= sum(p.iterations for p in horizon.phases)
    over = _ended(horizon, phase, records)
    finished = spent or (over and phase == last)
    held = over and not finished and _held(horizon, history)
    if over and not finished and not held:
        phase, records = phase + 1, []
    return Position(
        phase=phase,
        iteration_in_phase=len(records),
        max_turns=horizon.phases[phase].max_turns,
        finished=finished,
        held=held,
    )


def _held(horizon: Horizon, history: Sequence[IterationRecord]) -> bool:
    holding = [alarm for alarm in horizon.alarms if alarm.action == "hold"]
    return bool(ringing(holding, history))


def _ended(horizon: Horizon, phase: int, records: Sequence[IterationRecord]) -> bool:
    """Whether a phase that holds these records is over by its own rule."""
    limits: Phase = horizon.phases[phase]
    if len(records) >= limits.iterations:
        return True
    if horizon.advance == "iterations" or len(records) < limits.min_iterations:
        return False
    means = moving_means([r.success for r in since_restored(records)], horizon.window)
    if horizon.advance == "success":
        return means != [] and means[-1] >= horizon.success_above
    recent, earlier = means[-horizon.window :], means[: -horizon.window]
    if not earlier:
        return False
    rise = max(recent) - max(earlier)
    return rise <= 0 or rise < horizon.plateau_delta


def _schedule(turns: tuple[int, ...], iterations: tuple[int, ...]) -> Horizon:
    phases = zip(turns, iterations, strict=True)
    return Horizon(phases=tuple(Phase(max_turns=t, iterations=i) for t, i in phases))


PAPER_SCHEDULES: Mapping[str, Horizon] = MappingProxyType(
    {
        "textcraft": _schedule((10, 20, 30), (100, 100, 130)),
        "babyai": _schedule((6, 13, 20), (100, 100, 300)),
        "sciworld": _schedule((10, 20, 30), (100, 100, 1120)),
        "searchqa": _schedule((5, 8, 10), (100, 100, 170)),
        "webarena": _schedule((8, 12, 15), (80, 80, 115)),
    }
)
"""ScalingInter-RL's schedules (AgentGym-RL's training scripts), per environment. The scripts count
in epochs; the last phase's iterations follow from the size of each training set, searchqa's from
the length of the paper's figure 7."""
