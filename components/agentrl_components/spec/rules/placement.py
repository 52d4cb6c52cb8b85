"""Rules about the nodes, labels and annotations of pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from agentrl_components.spec.fields.environments import Environment
from agentrl_components.spec.fields.pods import LABEL_KEY, LONGEST_KEY, Toleration
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.environments.each import environment_rule
from agentrl_components.spec.rules.rule import Mistake, Rule, rule

RESERVED_KEYS = (
    "^(agentrl[.]dev|kueue[.]x-k8s[.]io|pipelines[.]kubeflow[.]org|pipeline"
    "|workflows[.]argoproj[.]io|ray[.]io|agents[.]x-k8s[.]io)/"
)
"""Labels by which the operator, Kueue, Kubeflow Pipelines, Argo and KubeRay find pods."""


def _complete_tolerations(owner: str) -> str:
    return (
        f"{owner}.tolerations.all(t, (has(t.key) || t.operator == 'Exists')"
        " && (!has(t.value) || t.operator == 'Equal'))"
    )


def _valid_keys(field: str) -> str:
    valid = f"size(key) <= {LONGEST_KEY} && key.matches(r'{LABEL_KEY}')"
    return f"(!has({field}) || {field}.all(key, {valid}))"


def _toleration_mistakes(tolerations: Iterable[Toleration], where: str) -> Iterator[Mistake]:
    for position, toleration in enumerate(tolerations):
        if toleration.key is None and toleration.operator == "Equal":
            yield Mistake(
                field=f"{where}.tolerations[{position}].key",
                reason="is missing, and operator Equal compares the value of one taint",
                fix="set it, or set operator to Exists for every taint",
            )
        if toleration.value is not None and toleration.operator == "Exists":
            yield Mistake(
                field=f"{where}.tolerations[{position}].value",
                reason="has no effect with operator Exists",
                fix="leave it out, or set operator to Equal",
            )


def _key_mistakes(keys: Mapping[str, str], where: str, kind: str) -> Iterator[Mistake]:
    for key in keys:
        if len(key) > LONGEST_KEY or re.fullmatch(LABEL_KEY, key) is None:
            yield Mistake(
                field=where,
                reason=f"{key!r} is not a valid key of {kind}",
                fix="write one such as pool or example.org/pool",
            )


@rule("compute", cel=_complete_tolerations("self.compute"))
def tolerations_are_complete(spec: RunSpec) -> Iterator[Mistake]:
    """An entry of compute.tolerations with operator Equal needs a key, and one with Exists may have
    no value."""
    yield from _toleration_mistakes(spec.compute.tolerations, "spec.compute")


@environment_rule("tolerations", cel=_complete_tolerations("e"))
def tolerations_of_servers_are_complete(environment: Environment, where: str) -> Iterator[Mistake]:
    """An entry of environments[].tolerations with operator Equal needs a key, and one with Exists
    may have no value."""
    yield from _toleration_mistakes(environment.tolerations, where)


@rule(
    "compute",
    cel=" && ".join(
        _valid_keys(f"self.compute.{field}")
        for field in ("nodeSelector", "podLabels", "podAnnotations")
    ),
)
def keys_are_valid(spec: RunSpec) -> Iterator[Mistake]:
    """Keys of compute.nodeSelector, podLabels and podAnnotations must be valid keys of labels."""
    compute = spec.compute
    yield from _key_mistakes(compute.node_selector, "spec.compute.nodeSelector", "a label")
    yield from _key_mistakes(compute.pod_labels, "spec.compute.podLabels", "a label")
    where = "spec.compute.podAnnotations"
    yield from _key_mistakes(compute.pod_annotations, where, "an annotation")


@environment_rule("nodeSelector", cel=_valid_keys("e.nodeSelector"))
def keys_of_servers_are_valid(environment: Environment, where: str) -> Iterator[Mistake]:
    """Keys of environments[].nodeSelector must be valid keys of labels."""
    yield from _key_mistakes(environment.node_selector, f"{where}.nodeSelector", "a label")


@rule(
    "compute",
    cel="(!has(self.compute.podLabels)"
    f" || !self.compute.podLabels.exists(key, key.matches(r'{RESERVED_KEYS}')))",
)
def pod_labels_are_free(spec: RunSpec) -> Iterator[Mistake]:
    """compute.podLabels may hold none of the labels by which pods are found: those of agentrl.dev/,
    pipeline/, pipelines.kubeflow.org/, workflows.argoproj.io/, kueue.x-k8s.io/, ray.io/ and
    agents.x-k8s.io/."""
    for key in spec.compute.pod_labels:
        if re.match(RESERVED_KEYS, key):
            yield Mistake(
                field="spec.compute.podLabels",
                reason=f"{key} is reserved: pods are found by labels with that prefix",
                fix="use a prefix of your own",
            )


RULES: tuple[Rule, ...] = (
    tolerations_are_complete,
    tolerations_of_servers_are_complete,
    keys_are_valid,
    keys_of_servers_are_valid,
    pod_labels_are_free,
)
