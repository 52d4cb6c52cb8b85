"""Rules about what needs Ray, and what Ray does not support."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


@rule(
    "compute",
    cel="has(self.compute.ray) || (!has(self.compute.trainers) && !has(self.compute.samplers)"
    " && self.compute.handOver == 'auto' && !self.compute.sparseHandOver"
    " && !self.compute.shareGpus)",
)
def trainers_and_samplers_need_ray(spec: RunSpec) -> Iterator[Mistake]:
    """compute.trainers, samplers, handOver, sparseHandOver and shareGpus require compute.ray."""
    if spec.compute.ray is None:
        compute = spec.compute
        found = {
            "trainers": compute.trainers is not None,
            "samplers": compute.samplers is not None,
            "handOver": compute.hand_over != "auto",
            "sparseHandOver": compute.sparse_hand_over,
            "shareGpus": compute.share_gpus,
        }
        for name, is_set in found.items():
            if is_set:
                yield Mistake(
                    field=f"spec.compute.{name}",
                    reason="has no effect without spec.compute.ray",
                    fix="set spec.compute.ray to embedded, to cluster or to the address of a Ray "
                    "cluster, or leave it out",
                )


@rule("compute", "update.compile", cel="!self.update.compile || has(self.compute.ray)")
def compile_needs_ray(spec: RunSpec) -> Iterator[Mistake]:
    """update.compile requires compute.ray."""
    if spec.update.compile and spec.compute.ray is None:
        yield Mistake(
            field="spec.update.compile",
            reason="is true, but only trainers on Ray compile",
            fix="set it to false, or spec.compute.ray",
        )


@rule(
    "update.compile",
    "model.implementation",
    cel="!self.update.compile || self.model.implementation != 'transformers'",
)
def compile_needs_our_model(spec: RunSpec) -> Iterator[Mistake]:
    """update.compile requires model.implementation other than transformers."""
    if spec.update.compile and spec.model.implementation == "transformers":
        yield Mistake(
            field="spec.update.compile",
            reason="is true, but models of transformers are not compiled",
            fix="set it to false, or spec.model.implementation to auto",
        )


@rule("compute", cel="!has(self.compute.ray) || self.compute.workers == 0")
def workers_are_not_for_ray(spec: RunSpec) -> Iterator[Mistake]:
    """compute.workers has no effect with compute.ray."""
    if spec.compute.ray is not None and spec.compute.workers:
        yield Mistake(
            field="spec.compute.workers",
            reason="has no effect with spec.compute.ray",
            fix="set spec.compute.trainers.count and spec.compute.samplers.count instead",
        )


@rule("compute", cel="!has(self.compute.ray) || self.compute.device == 'auto'")
def device_is_not_for_ray(spec: RunSpec) -> Iterator[Mistake]:
    """compute.device has no effect with compute.ray."""
    if spec.compute.ray is not None and spec.compute.device != "auto":
        yield Mistake(
            field="spec.compute.device",
            reason="has no effect with spec.compute.ray, where trainers and samplers compute on "
            "GPUs if they have any, and on CPUs otherwise",
            fix="leave it out, and set spec.compute.trainers.gpus and spec.compute.samplers.gpus "
            "for GPUs",
        )


@rule(
    "compute",
    cel="!has(self.compute.ray) || self.compute.placement == 'colocated'",
)
def ray_has_one_driver(spec: RunSpec) -> Iterator[Mistake]:
    """compute.ray requires compute.placement colocated."""
    if spec.compute.ray is not None and spec.compute.placement != "colocated":
        yield Mistake(
            field="spec.compute.placement",
            reason="is disaggregated, but on Ray one process drives trainers and samplers",
            fix="set it to colocated; with rollout.maxStaleness above 0 they work at the same time",
        )


@rule(
    "compute",
    "rollout.maxStaleness",
    "algorithm.refillRounds",
    cel="!has(self.compute.ray) || self.rollout.maxStaleness == 0"
    " || self.algorithm.refillRounds == 0",
)
def streams_are_not_refilled(spec: RunSpec) -> Iterator[Mistake]:
    """With compute.ray, rollout.maxStaleness above 0 requires algorithm.refillRounds 0."""
    refills = spec.algorithm.refill_rounds
    if spec.compute.ray is not None and spec.rollout.max_staleness and refills:
        yield Mistake(
            field="spec.algorithm.refillRounds",
            reason=f"is {refills}, but with rollout.maxStaleness {spec.rollout.max_staleness} on "
            "Ray an update takes the groups that were completed first",
            fix="set it to 0, or rollout.maxStaleness to 0",
        )


@rule(
    "compute",
    "rollout.maxStaleness",
    "rollout.interrupt",
    cel="self.rollout.interrupt == 'finish'"
    " || (has(self.compute.ray) && self.rollout.maxStaleness > 0)",
)
def interrupt_needs_streaming(spec: RunSpec) -> Iterator[Mistake]:
    """rollout.interrupt other than finish requires compute.ray and rollout.maxStaleness above 0."""
    rollout = spec.rollout
    if rollout.interrupt != "finish" and not (spec.compute.ray and rollout.max_staleness):
        yield Mistake(
            field="spec.rollout.interrupt",
            reason=f"is {rollout.interrupt}, but no reply is under way when weights are handed "
            "over, without compute.ray and rollout.maxStaleness above 0",
            fix="set it to finish",
        )


RULES: tuple[Rule, ...] = (
    trainers_and_samplers_need_ray,
    compile_needs_ray,
    compile_needs_our_model,
    workers_are_not_for_ray,
    device_is_not_for_ray,
    ray_has_one_driver,
    streams_are_not_refilled,
    interrupt_needs_streaming,
)
