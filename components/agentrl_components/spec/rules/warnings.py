"""What is valid in a manifest and may not be what its author wants."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake


def manifest_warnings(spec: RunSpec) -> Iterator[Mistake]:
    """Turn limits that an episode cannot reach if all of its replies are as long as they may be:
    `model.context` ends it before. Replies are often shorter, so this is no mistake."""
    phases = spec.horizon.phases
    longest = max(range(len(phases)), key=lambda index: phases[index].max_turns)
    limits = {f"horizon.phases[{longest}]": phases[longest].max_turns}
    if spec.evaluation.max_turns is not None:
        limits["evaluation"] = spec.evaluation.max_turns
    if spec.warm_start is not None and spec.warm_start.algorithm == "filtered-imitation":
        limits["warmStart"] = spec.warm_start.max_turns
    each, context = spec.rollout.max_tokens_per_turn, spec.model.context
    for where, turns in limits.items():
        if turns * each >= context:
            yield Mistake(
                field=f"spec.{where}.maxTurns",
                reason=f"{turns} turns of at most {each:,} tokens are {turns * each:,} tokens "
                f"without observations, and an episode ends when it fills model.context, "
                f"{context:,}",
                fix="raise spec.model.context, or lower maxTurns or spec.rollout.maxTokensPerTurn, "
                "unless replies are much shorter",
            )
