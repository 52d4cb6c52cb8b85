"""Rules about trainers and samplers on Ray."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.compute import Samplers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


@rule(
    "compute",
    cel="has(self.compute.ray) || (!has(self.compute.trainers) && !has(self.compute.samplers)"
    " && self.compute.handOver == 'auto' && !self.compute.sparseHandOver)",
)
def trainers_and_samplers_need_ray(spec: RunSpec) -> Iterator[Mistake]:
    """compute.trainers, samplers, handOver and sparseHandOver require compute.ray."""
    if spec.compute.ray is None:
        compute = spec.compute
        found = {
            "trainers": compute.trainers is not None,
            "samplers": compute.samplers is not None,
            "handOver": compute.hand_over != "auto",
            "sparseHandOver": compute.sparse_hand_over,
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


@rule(
    "compute",
    "rollout.engine",
    cel="!has(self.compute.samplers) || self.compute.samplers.tensorParallel == 1"
    " || self.rollout.engine == 'vllm'",
)
def tensor_parallel_needs_vllm(spec: RunSpec) -> Iterator[Mistake]:
    """compute.samplers.tensorParallel above 1 requires rollout.engine vllm."""
    samplers = spec.compute.samplers
    if samplers and samplers.tensor_parallel > 1 and spec.rollout.engine != "vllm":
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"is {samplers.tensor_parallel}, but the {spec.rollout.engine} engine runs on "
            "one device",
            fix="set it to 1, or rollout.engine to vllm",
        )


@rule(
    "compute",
    cel="!has(self.compute.samplers) || (self.compute.samplers.gpus == 0"
    " ? self.compute.samplers.tensorParallel == 1"
    " : self.compute.samplers.gpus == self.compute.samplers.tensorParallel)",
)
def sampler_gpus_are_its_tensor_parallel_size(spec: RunSpec) -> Iterator[Mistake]:
    """compute.samplers.gpus must equal tensorParallel, or be 0 with tensorParallel 1."""
    samplers = spec.compute.samplers
    if samplers and (samplers.gpus or 1) != samplers.tensor_parallel:
        yield Mistake(
            field="spec.compute.samplers.gpus",
            reason=f"is {samplers.gpus}, but tensorParallel is {samplers.tensor_parallel}, and an "
            "engine uses one GPU for each part",
            fix=f"set it to {samplers.tensor_parallel}, or tensorParallel to {samplers.gpus or 1}",
        )


@rule(
    "compute",
    "model.source",
    "model.tiny.heads",
    cel="!has(self.compute.samplers) || self.model.source != 'tiny'"
    " || self.model.tiny.heads % self.compute.samplers.tensorParallel == 0",
)
def tensor_parallel_divides_heads(spec: RunSpec) -> Iterator[Mistake]:
    """compute.samplers.tensorParallel must divide the heads of a tiny model."""
    samplers, heads = spec.compute.samplers, spec.model.tiny.heads
    if samplers and spec.model.source == "tiny" and heads % samplers.tensor_parallel:
        divisors = [str(n) for n in range(1, heads + 1) if heads % n == 0]
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"{samplers.tensor_parallel} does not divide the {heads} heads of model.tiny",
            fix=f"set it to one of {', '.join(divisors)}",
        )


@rule(
    "compute",
    "rollout.engine",
    "model.lora",
    cel="self.compute.handOver != 'nccl' || (self.rollout.engine == 'vllm'"
    " && !has(self.model.lora) && has(self.compute.trainers) && self.compute.trainers.gpus > 0"
    " && has(self.compute.samplers) && self.compute.samplers.gpus > 0)",
)
def nccl_hand_over_needs_gpus_and_vllm(spec: RunSpec) -> Iterator[Mistake]:
    """compute.handOver nccl requires trainers and samplers on GPUs, vllm, and no LoRA."""
    lora = spec.model.lora is not None
    possible = spec.compute.hands_over_by_nccl(spec.rollout.engine, lora=lora)
    if spec.compute.hand_over == "nccl" and not possible:
        yield Mistake(
            field="spec.compute.handOver",
            reason="is nccl, which needs trainers.gpus and samplers.gpus, rollout.engine vllm and "
            "no model.lora",
            fix="set it to auto",
        )


@rule(
    "compute",
    "rollout.engine",
    "model.dtype",
    "model.lora",
    cel="!self.compute.sparseHandOver || (self.model.dtype == 'bfloat16'"
    " && !has(self.model.lora) && (self.rollout.engine == 'torch'"
    " || (has(self.compute.samplers) && self.compute.samplers.gpus > 0)))",
)
def sparse_hand_over_needs_rounded_weights(spec: RunSpec) -> Iterator[Mistake]:
    """compute.sparseHandOver requires bfloat16, no LoRA, and with vllm samplers on GPUs."""
    if not spec.compute.sparse_hand_over:
        return
    reasons = {
        "model.dtype is float32, where an update changes nearly every weight": (
            spec.model.dtype != "bfloat16"
        ),
        "model.lora hands over adapters alone, which are small": spec.model.lora is not None,
        "vllm on CPUs keeps weights in another layout": (
            spec.rollout.engine == "vllm" and not (spec.compute.samplers or Samplers()).gpus
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            yield Mistake(
                field="spec.compute.sparseHandOver",
                reason=f"is true, but {reason}",
                fix="set it to false",
            )


RULES: tuple[Rule, ...] = (
    trainers_and_samplers_need_ray,
    compile_needs_ray,
    compile_needs_our_model,
    workers_are_not_for_ray,
    ray_has_one_driver,
    streams_are_not_refilled,
    interrupt_needs_streaming,
    tensor_parallel_needs_vllm,
    sampler_gpus_are_its_tensor_parallel_size,
    tensor_parallel_divides_heads,
    nccl_hand_over_needs_gpus_and_vllm,
    sparse_hand_over_needs_rounded_weights,
)
