"""Rules about the hand-over of weights."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_components.spec.fields.compute import Samplers
from agentrl_components.spec.fields.run import RunSpec
from agentrl_components.spec.rules.rule import Mistake, Rule, rule


@rule(
    "compute",
    "rollout.engine",
    "model.lora",
    cel="self.compute.handOver != 'nccl' || (self.rollout.engine == 'vllm'"
    " && !has(self.model.lora) && has(self.compute.trainers) && self.compute.trainers.gpus > 0"
    " && has(self.compute.samplers) && self.compute.samplers.gpus > 0"
    " && !self.compute.shareGpus)",
)
def nccl_hand_over_needs_gpus_and_vllm(spec: RunSpec) -> Iterator[Mistake]:
    """compute.handOver nccl requires GPUs for trainers and for samplers, vllm, and no LoRA."""
    lora = spec.model.lora is not None
    possible = spec.compute.hands_over_by_nccl(spec.rollout.engine, lora=lora)
    if spec.compute.hand_over == "nccl" and not possible:
        yield Mistake(
            field="spec.compute.handOver",
            reason="is nccl, which needs trainers.gpus and samplers.gpus, rollout.engine vllm, and "
            "neither model.lora nor shareGpus",
            fix="set it to auto",
        )


@rule(
    "compute",
    "rollout.engine",
    "model.dtype",
    "model.lora",
    cel="!self.compute.sparseHandOver || (self.model.dtype == 'bfloat16'"
    " && !has(self.model.lora) && !self.compute.shareGpus && (self.rollout.engine == 'torch'"
    " || (has(self.compute.samplers) && self.compute.samplers.gpus > 0)))",
)
def sparse_hand_over_needs_rounded_weights(spec: RunSpec) -> Iterator[Mistake]:
    """compute.sparseHandOver requires bfloat16, no LoRA or shareGpus, and with vllm GPUs."""
    if not spec.compute.sparse_hand_over:
        return
    reasons = {
        "model.dtype is float32, where an update changes nearly every weight": (
            spec.model.dtype != "bfloat16"
        ),
        "model.lora hands over adapters alone, which are small": spec.model.lora is not None,
        "with shareGpus samplers drop their weights while they sleep": spec.compute.share_gpus,
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
    nccl_hand_over_needs_gpus_and_vllm,
    sparse_hand_over_needs_rounded_weights,
)
