"""What the fields of a manifest must be to each other, where no single field can say it.

    for mistake in mistakes(run.spec):
        print(mistake)

`local_mistakes` adds what one machine cannot do and a cluster can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentrl_components.spec.rules import algorithm, environments, horizon, model, storage
from agentrl_components.spec.rules.rule import Mistake, Rule
from agentrl_components.spec.run import AgentRLRun, RunSpec

RULES: tuple[Rule, ...] = (
    *model.RULES,
    *environments.RULES,
    *algorithm.RULES,
    *horizon.RULES,
    *storage.RULES,
)
"""Every rule, in the order in which mistakes are told."""


def mistakes(spec: RunSpec, wrong: Iterable[str] = ()) -> Iterator[Mistake]:
    """What the rules find in `spec`. Rules that read a field in `wrong` (paths under `spec`, such
    as `horizon.phases.0.maxTurns`), or a field around or inside one, are not asked."""
    broken = tuple(wrong)
    for rule in RULES:
        if not any(_overlap(read, path) for read in rule.reads for path in broken):
            yield from rule.check(spec)


def _overlap(read: str, path: str) -> bool:
    """Whether one is the other, or around it."""
    return all(a in ("*", b) for a, b in zip(read.split("."), path.split("."), strict=False))


def local_mistakes(run: AgentRLRun) -> Iterator[Mistake]:
    """What keeps a valid manifest from running on this one machine, without Kubernetes."""
    for index, environment in enumerate(run.spec.environments):
        if environment.image is not None:
            yield Mistake(
                field=f"spec.environments[{index}].image",
                reason="a container is started by Kubernetes, and this run has none",
                fix="start its server yourself and give its url, or apply the manifest to a "
                "cluster",
            )
    if run.spec.suspend:
        yield Mistake(
            field="spec.suspend",
            reason="the manifest says not to work",
            fix="set it to false, or run with --set suspend=false",
        )


__all__ = ["RULES", "Mistake", "Rule", "local_mistakes", "mistakes"]
