"""Where a run stands in its horizon schedule: a pure function of schedule and history.

There is no counter to save or restore. A resumed run evaluates the same function on the same
records and gets the same result as one that was never interrupted. The phase of past iterations is
what their records say; the schedule only decides whether the current phase is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentrl_components.schedule.alarms import fired_alarms, moving_means
from agentrl_components.schedule.history import comparable
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.spec.fields.horizon import Horizon, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The iteration that comes next."""

    phase: int
    """Counted from 0; the last phase if the run is finished."""
    iteration_in_phase: int
    """Iterations of that phase that are done."""
    max_turns: int
    """Horizon: the most turns an episode may take."""
    finished: bool = False
    """No iteration follows."""
    held: bool = False
    """The phase is over by its own rule, but an alarm with `action: hold` keeps the horizon."""


def position(horizon: Horizon, history: Sequence[IterationRecord]) -> Position:
    """The position after the last record.

    A phase ends after its `iterations`, or earlier if `advance` says so, but not while a `hold`
    alarm fires. Iterations spent on hold are taken from later phases: a run never has more
    iterations than its phases together. Iterations before a rollback count as spent, but their
    success does not count; nor does that of iterations with other environments than the last one,
    as during an outage.
    """
    last = len(horizon.phases) - 1
    phase = min(history[-1].phase, last) if history else 0
    records = [record for record in history if record.phase == phase]
    spent = len(history) >= total_iterations(horizon)
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
    return bool(fired_alarms(holding, history))


def _ended(horizon: Horizon, phase: int, records: Sequence[IterationRecord]) -> bool:
    """Whether a phase with these records is over by its own rule."""
    limits: Phase = horizon.phases[phase]
    if len(records) >= limits.iterations:
        return True
    if horizon.advance == "iterations" or len(records) < limits.min_iterations:
        return False
    means = moving_means([r.success for r in comparable(records)], horizon.window)
    if horizon.advance == "success":
        return means != [] and means[-1] >= horizon.success_above
    recent, earlier = means[-horizon.window :], means[: -horizon.window]
    if not earlier:
        return False
    rise = max(recent) - max(earlier)
    return rise <= 0 or rise < horizon.plateau_delta


def total_iterations(horizon: Horizon) -> int:
    """The most iterations a run can have: those of all phases together."""
    return sum(phase.iterations for phase in horizon.phases)


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
"""ScalingInter-RL's schedule for each environment, from AgentGym-RL's training scripts. The scripts
count epochs; the iterations of the last phase follow from the size of each training set, those of
searchqa from the length of figure 7 of the paper (arXiv 2509.08755)."""
