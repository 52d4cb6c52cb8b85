"""Rules about the horizon schedule: phases, their end, alarms and warm-up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, differences, rule

_BOUNDS = tuple(name for name in Alarm.model_fields if name not in {"action", "window"})
_HAS_BOUND = " || ".join(f"has(a.{Alarm.model_fields[name].alias})" for name in _BOUNDS)
_ITERATIONS = "self.horizon.phases.map(p, p.iterations).sum()"
_NO_DELTA = f"self.horizon.plateauDelta == {Horizon.model_fields['plateau_delta'].default}"
_NO_SUCCESS = f"self.horizon.successAbove == {Horizon.model_fields['success_above'].default}"


def iterations(spec: RunSpec) -> int:
    """Maximum number of iterations of the run."""
    return sum(phase.iterations for phase in spec.horizon.phases)


@rule("horizon.phases.*.maxTurns", cel="self.horizon.phases.map(p, p.maxTurns).isSorted()")
def max_turns_never_decrease(spec: RunSpec) -> Iterator[Mistake]:
    """maxTurns may not decrease from one phase to the next."""
    for index, (before, phase) in enumerate(pairwise(spec.horizon.phases), start=1):
        if phase.max_turns < before.max_turns:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].maxTurns",
                reason=f"{phase.max_turns} is less than {before.max_turns} in the previous phase",
                fix=f"set it to {before.max_turns} or more",
            )


@rule(
    "horizon.phases.*.iterations",
    "horizon.phases.*.minIterations",
    cel="self.horizon.phases.all(p, p.minIterations <= p.iterations)",
)
def min_iterations_fit_phase(spec: RunSpec) -> Iterator[Mistake]:
    """minIterations of a phase may not exceed its iterations."""
    for index, phase in enumerate(spec.horizon.phases):
        if phase.min_iterations > phase.iterations:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].minIterations",
                reason=f"{phase.min_iterations} is more than iterations, {phase.iterations}",
                fix=f"set it to {phase.iterations} or less",
            )


@rule(
    "horizon.advance",
    "horizon.successAbove",
    "horizon.plateauDelta",
    "horizon.phases.*.minIterations",
    cel=f"(self.horizon.advance == 'success' || {_NO_SUCCESS})"
    f" && (self.horizon.advance == 'plateau' || {_NO_DELTA})"
    " && (self.horizon.advance != 'iterations'"
    " || self.horizon.phases.all(p, p.minIterations == 1))",
)
def early_end_settings_match_advance(spec: RunSpec) -> Iterator[Mistake]:
    """successAbove requires advance: success, plateauDelta requires advance: plateau, and
    minIterations requires either."""
    horizon = spec.horizon
    default = Horizon(phases=(Phase(max_turns=1, iterations=1),))
    for name, advance in (("success_above", "success"), ("plateau_delta", "plateau")):
        if horizon.advance != advance and differences(horizon, default, (name,)):
            yield Mistake(
                field=f"spec.horizon.{Horizon.model_fields[name].alias}",
                reason=f"has no effect: advance is {horizon.advance}",
                fix=f"set spec.horizon.advance to {advance}, or leave it out",
            )
    for index, phase in enumerate(horizon.phases):
        if horizon.advance == "iterations" and phase.min_iterations > 1:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].minIterations",
                reason="has no effect: advance is iterations, so a phase always has its iterations",
                fix="set spec.horizon.advance to success or plateau, or leave it out",
            )


@rule(
    "horizon.advance",
    "horizon.window",
    "horizon.phases.*.iterations",
    cel="self.horizon.advance == 'iterations'"
    " || self.horizon.phases.all(p, self.horizon.window"
    " * (self.horizon.advance == 'plateau' ? 2 : 1) <= p.iterations)",
)
def window_fits_phases(spec: RunSpec) -> Iterator[Mistake]:
    """horizon.window may not exceed the iterations of any phase if advance is success, or half of
    them if it is plateau, which compares two windows."""
    horizon = spec.horizon
    shortest = min(phase.iterations for phase in horizon.phases)
    windows = 2 if horizon.advance == "plateau" else 1
    if horizon.advance != "iterations" and windows * horizon.window > shortest:
        needed = f"{windows} windows of {horizon.window}" if windows > 1 else f"{horizon.window}"
        yield Mistake(
            field="spec.horizon.window",
            reason=f"{needed} iterations do not fit into a phase of {shortest}, which "
            f"could never end by {horizon.advance}",
            fix=f"set it to {max(1, shortest // windows)} or less, or lengthen the phase",
        )


@rule("horizon.alarms", cel=f"self.horizon.alarms.all(a, {_HAS_BOUND})")
def alarms_have_bounds(spec: RunSpec) -> Iterator[Mistake]:
    """Each alarm must have at least one threshold."""
    for index, alarm in enumerate(spec.horizon.alarms):
        if all(getattr(alarm, name) is None for name in _BOUNDS):
            names = ", ".join(str(Alarm.model_fields[name].alias) for name in _BOUNDS)
            yield Mistake(
                field=f"spec.horizon.alarms[{index}]",
                reason="has no threshold, so it can never become active",
                fix=f"set one of {names}",
            )


@rule(
    "horizon.alarms.*.window",
    "horizon.phases.*.iterations",
    cel=f"self.horizon.alarms.all(a, a.window <= {_ITERATIONS})",
)
def alarm_windows_fit_run(spec: RunSpec) -> Iterator[Mistake]:
    """The window of an alarm may not exceed the iterations of the run."""
    total = iterations(spec)
    for index, alarm in enumerate(spec.horizon.alarms):
        if alarm.window > total:
            yield Mistake(
                field=f"spec.horizon.alarms[{index}].window",
                reason=f"{alarm.window} is more than the run's {total} iterations, so it can "
                "never become active",
                fix=f"set it to {total} or less",
            )


@rule(
    "horizon.alarms.*.rewardStdBelow",
    "rollout.groupSize",
    cel="self.rollout.groupSize >= 2 || self.horizon.alarms.all(a, !has(a.rewardStdBelow))",
)
def reward_std_needs_groups(spec: RunSpec) -> Iterator[Mistake]:
    """rewardStdBelow requires a groupSize of at least 2."""
    for index, alarm in enumerate(spec.horizon.alarms):
        if alarm.reward_std_below is not None and spec.rollout.group_size < 2:
            yield Mistake(
                field=f"spec.horizon.alarms[{index}].rewardStdBelow",
                reason="a group of one episode has no standard deviation, so the alarm is always "
                "active",
                fix="leave it out, or set spec.rollout.groupSize to 2 or more",
            )


@rule(
    "horizon.phases.*.iterations",
    "update.warmupIterations",
    cel=f"self.update.warmupIterations == 0 || self.update.warmupIterations < {_ITERATIONS}",
)
def learning_rate_warmup_ends(spec: RunSpec) -> Iterator[Mistake]:
    """update.warmupIterations must be less than the iterations of the run."""
    yield from _warmup_ends(spec, "spec.update.warmupIterations", spec.update.warmup_iterations)


@rule(
    "horizon.phases.*.iterations",
    "algorithm.critic.warmupIterations",
    cel="self.algorithm.critic.warmupIterations == 0"
    f" || self.algorithm.critic.warmupIterations < {_ITERATIONS}",
)
def critic_warmup_ends(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.critic.warmupIterations must be less than the iterations of the run."""
    count = spec.algorithm.critic.warmup_iterations
    yield from _warmup_ends(spec, "spec.algorithm.critic.warmupIterations", count)


def _warmup_ends(spec: RunSpec, field: str, count: int) -> Iterator[Mistake]:
    total = iterations(spec)
    if count and count >= total:
        yield Mistake(
            field=field,
            reason=f"{count} iterations of warm-up leave none of the run's {total}",
            fix=f"set it below {total}",
        )


@rule(
    "environments.*.maxTurns",
    "horizon.phases",
    cel="self.environments.all(e, size(e.maxTurns) <= size(self.horizon.phases)"
    " && e.maxTurns.isSorted())",
)
def environment_turns_fit_schedule(spec: RunSpec) -> Iterator[Mistake]:
    """environments[].maxTurns may have one number for each phase, and may not decrease."""
    phases = len(spec.horizon.phases)
    for index, environment in enumerate(spec.environments):
        field = f"spec.environments[{index}].maxTurns"
        if len(environment.max_turns) > phases:
            yield Mistake(
                field=field,
                reason=f"has {len(environment.max_turns)} numbers for {phases} phases",
                fix=f"give at most {phases}",
            )
        if list(environment.max_turns) != sorted(environment.max_turns):
            yield Mistake(
                field=field,
                reason="decreases from one phase to the next",
                fix="sort the numbers",
            )


RULES: tuple[Rule, ...] = (
    max_turns_never_decrease,
    min_iterations_fit_phase,
    early_end_settings_match_advance,
    window_fits_phases,
    alarms_have_bounds,
    alarm_windows_fit_run,
    reward_std_needs_groups,
    learning_rate_warmup_ends,
    critic_warmup_ends,
    environment_turns_fit_schedule,
)
