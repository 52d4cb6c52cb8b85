"""Rules about GPUs that trainers and samplers use in turns."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.compute import Samplers, Trainers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


@rule(
    "compute",
    "rollout.engine",
    "rollout.maxStaleness",
    cel="!self.compute.shareGpus || !has(self.compute.ray) || (self.rollout.engine == 'vllm'"
    " && self.rollout.maxStaleness == 0"
    " && has(self.compute.trainers) && self.compute.trainers.gpus == 1"
    " && has(self.compute.samplers) && self.compute.samplers.gpus == 1"
    " && self.compute.samplers.count == self.compute.trainers.count"
    " && self.compute.samplers.perPod == 1)",
)
def shared_gpus_are_used_in_turns(spec: RunSpec) -> Iterator[Mistake]:
    """compute.shareGpus requires vllm, maxStaleness 0, a GPU each, and as many samplers."""
    if not spec.compute.share_gpus or spec.compute.ray is None:
        return
    trainers, samplers = spec.compute.trainers or Trainers(), spec.compute.samplers or Samplers()
    ahead, engine = spec.rollout.max_staleness, spec.rollout.engine
    each = f"compute.shareGpus gives the GPU of each of {trainers.count} trainers to one sampler"
    if engine != "vllm":
        yield Mistake(
            field="spec.rollout.engine",
            reason=f"is {engine}, which does not give its memory back as compute.shareGpus demands",
            fix="set it to vllm, or compute.shareGpus to false",
        )
    if ahead:
        yield Mistake(
            field="spec.rollout.maxStaleness",
            reason=f"is {ahead}, but with compute.shareGpus trainers and samplers take turns",
            fix="set it to 0, or compute.shareGpus to false",
        )
    if trainers.gpus != 1:
        yield Mistake(
            field="spec.compute.trainers.gpus",
            reason=f"is {trainers.gpus}; {each}",
            fix="set it to 1",
        )
    if samplers.gpus != 1:
        yield Mistake(
            field="spec.compute.samplers.gpus",
            reason=f"is {samplers.gpus}; {each}",
            fix="set it and tensorParallel to 1",
        )
    if samplers.count != trainers.count:
        yield Mistake(
            field="spec.compute.samplers.count",
            reason=f"is {samplers.count}; {each}",
            fix=f"set it to {trainers.count}",
        )
    if samplers.per_pod != 1:
        yield Mistake(
            field="spec.compute.samplers.perPod",
            reason=f"is {samplers.per_pod}, but with compute.shareGpus samplers are in the pods of "
            "trainers",
            fix="leave it out, and set trainers.perPod",
        )


RULES: tuple[Rule, ...] = (shared_gpus_are_used_in_turns,)
