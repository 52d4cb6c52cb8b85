"""Rules about the devices of engines."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.compute import Samplers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, differences, rule


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
    "rollout.engine",
    cel="!has(self.compute.samplers) || self.rollout.engine == 'vllm'"
    f" || (self.compute.samplers.memoryShare == {Samplers().memory_share}"
    f" && self.compute.samplers.maxBatch == {Samplers().max_batch}"
    " && !self.compute.samplers.eager)",
)
def engine_settings_need_vllm(spec: RunSpec) -> Iterator[Mistake]:
    """compute.samplers.memoryShare, maxBatch and eager require rollout.engine vllm."""
    samplers = spec.compute.samplers
    if samplers is None or spec.rollout.engine == "vllm":
        return
    for name in differences(samplers, Samplers(), ("memory_share", "max_batch", "eager")):
        yield Mistake(
            field=f"spec.compute.samplers.{Samplers.model_fields[name].alias}",
            reason=f"has no effect with the {spec.rollout.engine} engine",
            fix="leave it out, or set rollout.engine to vllm",
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


RULES: tuple[Rule, ...] = (
    tensor_parallel_needs_vllm,
    engine_settings_need_vllm,
    sampler_gpus_are_its_tensor_parallel_size,
    tensor_parallel_divides_heads,
)
