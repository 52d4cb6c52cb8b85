"""What the fields of a manifest must be to each other, where no single field can say it.

    for mistake in mistakes(run.spec):
        print(mistake)

`local_mistakes` adds what one machine cannot do and a cluster can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentrl_components.spec.fields.run import AgentRLRun, RunSpec
from agentrl_components.spec.rules import algorithm, environments, horizon, model, storage
from agentrl_components.spec.rules.rule import Mistake, Rule

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
    as `horizon.phases.0.maxTurns`), or a field around or inside one, are not asked; of a rule about
    every item of a list, what it says of the other items counts."""
    broken = tuple(wrong)
    for rule in RULES:
        met = [(read, path) for read in rule.reads for path in broken if _overlap(read, path)]
        items = {_item(read, path) for read, path in met}
        if "" not in items:
            lists = tuple(item.rpartition("[")[0] + "[" for item in items)
            for mistake in rule.check(spec):
                of_an_item = mistake.field.startswith(lists or "spec")
                if of_an_item and not mistake.field.startswith(tuple(items)):
                    yield mistake


def _overlap(read: str, path: str) -> bool:
    """Whether one is the other, or around it."""
    return all(a in ("*", b) for a, b in zip(read.split("."), path.split("."), strict=False))


def _item(read: str, path: str) -> str:
    """The item of a list that holds both, as manifests write it; empty: no single one does."""
    around, star, _ = read.partition(".*")
    depth = around.count(".") + 1
    parts = path.split(".")
    return f"spec.{around}[{parts[depth]}]" if star and len(parts) > depth else ""


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
