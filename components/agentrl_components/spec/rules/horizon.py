"""Rules about the schedule: phases, what ends them, alarms, warm-up, and how play is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from agentrl_components.spec.fields.algorithm import COMPARES_A_GROUP
from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, changed, rule

_BOUNDS = tuple(name for name in Alarm.model_fields if name not in {"action", "window"})
_HAS_BOUND = " || ".join(f"has(a.{Alarm.model_fields[name].alias})" for name in _BOUNDS)
_ITERATIONS = "self.horizon.phases.map(p, p.iterations).sum()"
_NO_DELTA = f"self.horizon.plateauDelta == {Horizon.model_fields['plateau_delta'].default}"
_NO_SUCCESS = f"self.horizon.successAbove == {Horizon.model_fields['success_above'].default}"


def iterations(spec: RunSpec) -> int:
    """Iterations of the whole run, at most."""
    return sum(phase.iterations for phase in spec.horizon.phases)


@rule("horizon.phases.*.maxTurns", cel="self.horizon.phases.map(p, p.maxTurns).isSorted()")
def horizons_never_shrink(spec: RunSpec) -> Iterator[Mistake]:
    """A phase's maxTurns is at least that of the phase before."""
    for index, (before, phase) in enumerate(pairwise(spec.horizon.phases), start=1):
        if phase.max_turns < before.max_turns:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].maxTurns",
                reason=f"{phase.max_turns} is less than the {before.max_turns} of the phase before",
                fix=f"set it to {before.max_turns} or more; a horizon may only grow",
            )


@rule(
    "horizon.phases.*.iterations",
    "horizon.phases.*.minIterations",
    cel="self.horizon.phases.all(p, p.minIterations <= p.iterations)",
)
def a_phase_ends_after_its_least(spec: RunSpec) -> Iterator[Mistake]:
    """A phase's minIterations is at most its iterations."""
    for index, phase in enumerate(spec.horizon.phases):
        if phase.min_iterations > phase.iterations:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].minIterations",
                reason=f"{phase.min_iterations} is more than its iterations, {phase.iterations}",
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
def an_early_end_needs_a_sign(spec: RunSpec) -> Iterator[Mistake]:
    """successAbove belongs to advance: success, plateauDelta to advance: plateau, and minIterations
    to either."""
    horizon = spec.horizon
    default = Horizon(phases=(Phase(max_turns=1, iterations=1),))
    for name, advance in (("success_above", "success"), ("plateau_delta", "plateau")):
        if horizon.advance != advance and changed(horizon, default, (name,)):
            yield Mistake(
                field=f"spec.horizon.{Horizon.model_fields[name].alias}",
                reason=f"has no effect: advance is {horizon.advance}",
                fix=f"set spec.horizon.advance to {advance}, or leave it out",
            )
    for index, phase in enumerate(horizon.phases):
        if horizon.advance == "iterations" and phase.min_iterations > 1:
            yield Mistake(
                field=f"spec.horizon.phases[{index}].minIterations",
                reason="has no effect: advance is iterations, so a phase lasts exactly its own",
                fix="set spec.horizon.advance to success or plateau, or leave it out",
            )


@rule(
    "horizon.advance",
    "horizon.window",
    "horizon.phases.*.iterations",
    cel="self.horizon.advance == 'iterations'"
    " || self.horizon.phases.all(p, self.horizon.window <= p.iterations)",
)
def a_window_fits_its_phase(spec: RunSpec) -> Iterator[Mistake]:
    """horizon.window is at most the iterations of every phase, where advance looks at it."""
    horizon = spec.horizon
    shortest = min(phase.iterations for phase in horizon.phases)
    if horizon.advance != "iterations" and horizon.window > shortest:
        yield Mistake(
            field="spec.horizon.window",
            reason=f"{horizon.window} iterations are never seen in a phase of {shortest}, which "
            f"could so never end by {horizon.advance}",
            fix=f"set it to {shortest} or less, or lengthen the phase",
        )


@rule("horizon.alarms", cel=f"self.horizon.alarms.all(a, {_HAS_BOUND})")
def an_alarm_watches_something(spec: RunSpec) -> Iterator[Mistake]:
    """Each alarm has at least one bound."""
    for index, alarm in enumerate(spec.horizon.alarms):
        if all(getattr(alarm, name) is None for name in _BOUNDS):
            names = ", ".join(str(Alarm.model_fields[name].alias) for name in _BOUNDS)
            yield Mistake(
                field=f"spec.horizon.alarms[{index}]",
                reason="has no bound, so it can never ring",
                fix=f"set one of {names}",
            )


@rule(
    "horizon.alarms.*.window",
    "horizon.phases.*.iterations",
    cel=f"self.horizon.alarms.all(a, a.window <= {_ITERATIONS})",
)
def an_alarm_has_time_to_ring(spec: RunSpec) -> Iterator[Mistake]:
    """An alarm's window is at most the iterations of the run."""
    total = iterations(spec)
    for index, alarm in enumerate(spec.horizon.alarms):
        if alarm.window > total:
            yield Mistake(
                field=f"spec.horizon.alarms[{index}].window",
                reason=f"{alarm.window} is more than the run's {total} iterations, so it can "
                "never ring",
                fix=f"set it to {total} or less",
            )


@rule(
    "horizon.alarms.*.rewardStdBelow",
    "rollout.groupSize",
    cel="self.rollout.groupSize >= 2 || self.horizon.alarms.all(a, !has(a.rewardStdBelow))",
)
def one_episode_has_no_spread(spec: RunSpec) -> Iterator[Mistake]:
    """rewardStdBelow needs a groupSize of at least 2."""
    for index, alarm in enumerate(spec.horizon.alarms):
        if alarm.reward_std_below is not None and spec.rollout.group_size < 2:
            yield Mistake(
                field=f"spec.horizon.alarms[{index}].rewardStdBelow",
                reason="a group of one episode has no spread, so it would always ring",
                fix="leave it out, or set spec.rollout.groupSize to 2 or more"
                + ("" if spec.algorithm.name in COMPARES_A_GROUP else " for its sake"),
            )


@rule(
    "horizon.phases.*.iterations",
    "update.warmupIterations",
    cel=f"self.update.warmupIterations == 0 || self.update.warmupIterations < {_ITERATIONS}",
)
def the_step_size_arrives(spec: RunSpec) -> Iterator[Mistake]:
    """update.warmupIterations is below the iterations of the run."""
    yield from _warms_up(spec, "spec.update.warmupIterations", spec.update.warmup_iterations)


@rule(
    "horizon.phases.*.iterations",
    "algorithm.critic.warmupIterations",
    cel="self.algorithm.critic.warmupIterations == 0"
    f" || self.algorithm.critic.warmupIterations < {_ITERATIONS}",
)
def the_policy_gets_its_turn(spec: RunSpec) -> Iterator[Mistake]:
    """algorithm.critic.warmupIterations is below the iterations of the run."""
    count = spec.algorithm.critic.warmup_iterations
    yield from _warms_up(spec, "spec.algorithm.critic.warmupIterations", count)


def _warms_up(spec: RunSpec, field: str, count: int) -> Iterator[Mistake]:
    total = iterations(spec)
    if count and count >= total:
        yield Mistake(
            field=field,
            reason=f"{count} iterations of warm-up leave none of the run's {total}",
            fix=f"set it below {total}",
        )


@rule(
    "evaluation.turnSweep",
    cel="self.evaluation.turnSweep.isSorted() && self.evaluation.turnSweep.all(t,"
    " self.evaluation.turnSweep.exists_one(same, same == t))",
)
def a_sweep_goes_up(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.turnSweep increases."""
    for index, (before, turns) in enumerate(pairwise(spec.evaluation.turn_sweep), start=1):
        if turns <= before:
            yield Mistake(
                field=f"spec.evaluation.turnSweep[{index}]",
                reason=f"{turns} does not come after {before}",
                fix="list the turns from few to many, each once",
            )


@rule(
    "evaluation.turnSweep",
    "horizon.phases.*.maxTurns",
    cel="self.evaluation.turnSweep.all(t, t <= 10 * self.horizon.phases.map(p, p.maxTurns).max())",
)
def a_sweep_stays_near(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.turnSweep is at most ten times the longest phase's maxTurns."""
    longest = max(phase.max_turns for phase in spec.horizon.phases)
    for index, turns in enumerate(spec.evaluation.turn_sweep):
        if turns > 10 * longest:
            yield Mistake(
                field=f"spec.evaluation.turnSweep[{index}]",
                reason=f"{turns} is more than ten times the longest horizon, {longest}",
                fix=f"set it to {10 * longest} or less",
            )


@rule(
    "evaluation.samples",
    "evaluation.temperature",
    cel="self.evaluation.samples == 1 || self.evaluation.temperature > 0.0",
)
def samples_differ(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.samples above 1 needs a temperature above 0."""
    evaluation = spec.evaluation
    if evaluation.samples > 1 and evaluation.temperature == 0:
        yield Mistake(
            field="spec.evaluation.samples",
            reason=f"{evaluation.samples} greedy episodes of a task are all the same, so pass@k "
            "would say nothing",
            fix="set it to 1, or spec.evaluation.temperature above 0",
        )


RULES: tuple[Rule, ...] = (
    horizons_never_shrink,
    a_phase_ends_after_its_least,
    an_early_end_needs_a_sign,
    a_window_fits_its_phase,
    an_alarm_watches_something,
    an_alarm_has_time_to_ring,
    one_episode_has_no_spread,
    the_step_size_arrives,
    the_policy_gets_its_turn,
    a_sweep_goes_up,
    a_sweep_stays_near,
    samples_differ,
)
