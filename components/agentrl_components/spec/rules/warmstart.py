"""Rules about the warm start."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.fields.warmstart import WarmStart
from agentrl_components.spec.rules.rule import Mistake, Rule, differences, rule
from agentrl_envs.registry import relabels

_SAMPLING = ("episodes", "max_turns", "rounds")
_DEFAULT = {name: WarmStart.model_fields[name].default for name in _SAMPLING}
_IS_DEFAULT = " && ".join(
    f"self.warmStart.{WarmStart.model_fields[name].alias} == {_DEFAULT[name]}" for name in _SAMPLING
)
_UNUSED = {
    "sft": (*_SAMPLING, "path_weight"),
    "hindsight": ("rounds",),
    "filtered-imitation": ("path_weight",),
}
"""Fields that each algorithm does not use."""


@rule(
    "warmStart",
    cel="!has(self.warmStart)"
    " || has(self.warmStart.trajectories) == (self.warmStart.algorithm == 'sft')",
)
def trajectories_match_algorithm(spec: RunSpec) -> Iterator[Mistake]:
    """warmStart.trajectories is required by sft and not used by other algorithms."""
    warm = spec.warm_start
    if warm is None:
        return
    if warm.algorithm == "sft" and warm.trajectories is None:
        yield Mistake(
            field="spec.warmStart.trajectories",
            reason="is missing: sft needs conversations to imitate",
            fix="set it to a JSONL file, file:// or s3://",
        )
    if warm.algorithm != "sft" and warm.trajectories is not None:
        yield Mistake(
            field="spec.warmStart.trajectories",
            reason=f"has no effect: {warm.algorithm} generates its own episodes",
            fix="leave it out, or set spec.warmStart.algorithm to sft",
        )


@rule(
    "warmStart",
    cel=f"!has(self.warmStart) || ((self.warmStart.algorithm != 'sft' || ({_IS_DEFAULT}))"
    " && (self.warmStart.algorithm == 'filtered-imitation' || self.warmStart.rounds == 1)"
    " && (self.warmStart.algorithm == 'hindsight' || self.warmStart.pathWeight == 1.0))",
)
def warm_start_fields_match_algorithm(spec: RunSpec) -> Iterator[Mistake]:
    """warmStart.episodes and maxTurns are not used by sft, rounds requires filtered-imitation, and
    pathWeight requires hindsight."""
    warm = spec.warm_start
    if warm is None:
        return
    unused = _UNUSED[warm.algorithm]
    default = WarmStart(algorithm=warm.algorithm)
    for name in differences(warm, default, unused):
        yield Mistake(
            field=f"spec.warmStart.{WarmStart.model_fields[name].alias}",
            reason=f"has no effect with {warm.algorithm}",
            fix="leave it out",
        )


@rule("warmStart.algorithm", "environments.*.builtin")
def hindsight_needs_goals_that_can_be_rewritten(spec: RunSpec) -> Iterator[Mistake]:
    """warmStart.algorithm may be hindsight only if every environment can rewrite a goal."""
    if spec.warm_start is None or spec.warm_start.algorithm != "hindsight":
        return
    for index, environment in enumerate(spec.environments):
        if relabels(environment.builtin or "") is False:
            yield cannot_rewrite_goals(index, environment.name)


def cannot_rewrite_goals(index: int, name: str) -> Mistake:
    """The mistake of hindsight with the environment `name`, which is `spec.environments[index]`.
    Of a server or another package's environment it is known only when the run is opened."""
    return Mistake(
        field="spec.warmStart.algorithm",
        reason="hindsight needs environments that can rewrite a goal, and "
        f"spec.environments[{index}] ({name}) cannot",
        fix="use filtered-imitation or sft",
    )


def imitates_without_thoughts(source: str) -> Mistake:
    """The mistake of hindsight with the model `source`, whose chat template always asks for
    thoughts. It is known only when the model is opened."""
    return Mistake(
        field="spec.warmStart.algorithm",
        reason="hindsight imitates actions without thoughts, and the chat template of "
        f"{source} always asks for thoughts",
        fix="use filtered-imitation or sft",
    )


RULES: tuple[Rule, ...] = (
    trajectories_match_algorithm,
    warm_start_fields_match_algorithm,
    hindsight_needs_goals_that_can_be_rewritten,
)
