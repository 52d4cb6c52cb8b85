"""Validation of relations between fields.

    for mistake in mistakes(run.spec):
        print(mistake)

`local_mistakes` adds what prevents a run on a single machine without Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentrl_components.spec.fields.run import AgentRLRun, RunSpec
from agentrl_components.spec.rules import (
    algorithm,
    evaluation,
    horizon,
    model,
    placement,
    storage,
    warmstart,
)
from agentrl_components.spec.rules.compute import engines, hand_over, on_ray, pods, shared_gpus
from agentrl_components.spec.rules.environments import replicas, scaling, servers, tasks, text
from agentrl_components.spec.rules.rule import Mistake, Rule

RULES: tuple[Rule, ...] = (
    *model.RULES,
    *tasks.RULES,
    *text.RULES,
    *replicas.RULES,
    *servers.RULES,
    *scaling.RULES,
    *algorithm.RULES,
    *horizon.RULES,
    *evaluation.RULES,
    *warmstart.RULES,
    *storage.RULES,
    *on_ray.RULES,
    *engines.RULES,
    *hand_over.RULES,
    *shared_gpus.RULES,
    *pods.RULES,
    *placement.RULES,
)
"""All rules, in the order in which their mistakes are reported."""


def mistakes(spec: RunSpec, invalid: Iterable[str] = ()) -> Iterator[Mistake]:
    """The rule violations in `spec`.

    `invalid` holds paths under `spec` that are invalid by themselves, such as
    `horizon.phases.0.maxTurns`. A rule that reads one of them, or a field that contains it or is
    contained in it, is skipped. If that field is in an item of a list, and the rule covers all
    items, only the mistakes in that item are skipped."""
    paths = tuple(invalid)
    for rule in RULES:
        overlaps = [(read, path) for read in rule.reads for path in paths if _overlap(read, path)]
        items = {_list_item(read, path) for read, path in overlaps}
        if "" not in items:
            lists = tuple(item.rpartition("[")[0] + "[" for item in items)
            for mistake in rule.check(spec):
                in_list = mistake.field.startswith(lists or "spec")
                if in_list and not mistake.field.startswith(tuple(items)):
                    yield mistake


def _overlap(read: str, path: str) -> bool:
    """Whether one path is equal to the other or contains it."""
    return all(a in ("*", b) for a, b in zip(read.split("."), path.split("."), strict=False))


def _list_item(read: str, path: str) -> str:
    """The list item that both paths lie in, such as `spec.horizon.phases[0]`. Empty if there is no
    such single item."""
    around, star, _ = read.partition(".*")
    depth = around.count(".") + 1
    parts = path.split(".")
    return f"spec.{around}[{parts[depth]}]" if star and len(parts) > depth else ""


def local_mistakes(run: AgentRLRun) -> Iterator[Mistake]:
    """What prevents a valid manifest from running on this machine, without Kubernetes."""
    for index, environment in enumerate(run.spec.environments):
        if environment.image is not None and environment.builtin is None:
            yield Mistake(
                field=f"spec.environments[{index}].image",
                reason="a container image needs Kubernetes",
                fix="start the server yourself and set url, or apply the manifest to a cluster",
            )
    if run.spec.suspend:
        yield Mistake(
            field="spec.suspend",
            reason="the run is suspended",
            fix="set it to false, or run with --set suspend=false",
        )
