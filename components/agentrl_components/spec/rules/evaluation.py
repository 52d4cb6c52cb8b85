"""Rules about evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule

_LOWEST = 0.01
"""The lowest temperature of `rollout.temperature`, above 0."""


@rule(
    "evaluation.turnSweep",
    cel="self.evaluation.turnSweep.isSorted() && self.evaluation.turnSweep.all(t,"
    " self.evaluation.turnSweep.exists_one(same, same == t))",
)
def turn_sweep_increases(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.turnSweep must be strictly increasing."""
    for index, (before, turns) in enumerate(pairwise(spec.evaluation.turn_sweep), start=1):
        if turns <= before:
            yield Mistake(
                field=f"spec.evaluation.turnSweep[{index}]",
                reason=f"{turns} is not greater than {before}",
                fix="list the turn limits in increasing order, without duplicates",
            )


@rule(
    "evaluation.turnSweep",
    "horizon.phases.*.maxTurns",
    cel="self.evaluation.turnSweep.all(t, t <= 10 * self.horizon.phases.map(p, p.maxTurns).max())",
)
def turn_sweep_is_bounded(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.turnSweep must be at most ten times maxTurns of the longest phase."""
    longest = max(phase.max_turns for phase in spec.horizon.phases)
    for index, turns in enumerate(spec.evaluation.turn_sweep):
        if turns > 10 * longest:
            yield Mistake(
                field=f"spec.evaluation.turnSweep[{index}]",
                reason=f"{turns} is more than ten times the longest phase's maxTurns, {longest}",
                fix=f"set it to {10 * longest} or less",
            )


@rule(
    "evaluation.samples",
    "evaluation.temperature",
    cel="self.evaluation.samples == 1 || self.evaluation.temperature > 0.0",
)
def samples_need_temperature(spec: RunSpec) -> Iterator[Mistake]:
    """evaluation.samples above 1 requires a temperature above 0."""
    evaluation = spec.evaluation
    if evaluation.samples > 1 and evaluation.temperature == 0:
        yield Mistake(
            field="spec.evaluation.samples",
            reason=f"{evaluation.samples} greedy episodes of a task are identical, so pass@k is "
            "meaningless",
            fix="set it to 1, or spec.evaluation.temperature above 0",
        )


@rule(
    "evaluation.temperature",
    "rollout.engine",
    cel="self.rollout.engine != 'vllm' || self.evaluation.temperature == 0.0"
    f" || self.evaluation.temperature >= {_LOWEST}",
)
def vllm_needs_a_temperature_it_samples_with(spec: RunSpec) -> Iterator[Mistake]:
    """With rollout.engine vllm, evaluation.temperature must be 0 or at least 0.01, the lowest one
    that vLLM samples with."""
    temperature = spec.evaluation.temperature
    if spec.rollout.engine == "vllm" and 0 < temperature < _LOWEST:
        yield Mistake(
            field="spec.evaluation.temperature",
            reason=f"{temperature} is more than 0 and less than {_LOWEST}, the lowest one that "
            "vLLM samples with",
            fix=f"set it to 0, or to {_LOWEST} or more",
        )


RULES: tuple[Rule, ...] = (
    turn_sweep_increases,
    turn_sweep_is_bounded,
    samples_need_temperature,
    vllm_needs_a_temperature_it_samples_with,
)
