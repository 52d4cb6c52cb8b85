"""Memory of a trainer, by what it is spent on.

Weights, gradients and moments are exact: they follow `update.flat_parameters` and
`update.optimizer`, or their sharded form. Activations follow the decoder's operations; a test
compares them with what autograd saves. `RESERVE` is an allowance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.layout import LANES, Layout
from agentrl_pipelines.sizing.model_size import ModelSize

RESERVE = 2 << 30
"""Bytes for the CUDA context, communication buffers and fragmentation on a device."""
PROCESS = 1 << 29
"""Bytes of a process with torch on a machine without GPUs. Measured with
`examples/babyai-ray.yaml`: 0.5 GiB."""
WIDTHS = {"float32": 4, "bfloat16": 2}
LOGIT_BYTES = 18
"""Bytes per logit of a chunk: logits in the model's type, in float32, divided by the temperature,
and their gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerMemory:
    """Bytes on each device of a trainer."""

    weights: int
    """Master weights, and the copy in `model.dtype` that computes."""
    gradients: int
    moments: int
    """AdamW's two moments."""
    reference: int
    """The reference policy of the KL penalty."""
    critic: int
    """Weights, gradients and moments of the critic."""
    activations: int
    """Activations of one pack of `update.microBatchTokens` or of one episode of `model.context`,
    whichever is longer; on a CPU of as many as are computed at the same time."""
    logits: int
    """Logits of one chunk of `update.logitsChunk` tokens, and their gradients, of as many packs."""
    reserve: int

    @property
    def total(self) -> int:
        """Bytes on each device."""
        state = self.weights + self.gradients + self.moments + self.reference + self.critic
        return state + self.activations + self.logits + self.reserve


def trainer_memory(
    spec: RunSpec, shape: Architecture, size: ModelSize, layout: Layout
) -> TrainerMemory:
    """Memory on each device of the trainers."""
    width = WIDTHS[spec.model.dtype]
    weights, gradients, moments = _model_state(size, width, layout)
    frozen_reference = size.trainable if spec.model.lora is not None else size.total
    penalised = spec.algorithm.kl.coefficient > 0
    copies = 4 + (width if width != 4 else 0)
    reference = frozen_reference * (4 if layout.sharded else copies) if penalised else 0
    critic = 0
    if spec.algorithm.traits.needs_critic:
        # The critic is a whole model of its own, without adapters.
        whole = replace(size, trainable=size.total)
        critic = sum(_model_state(whole, width, layout))
    chunk = min(spec.update.logits_chunk, pack_tokens(spec))
    return TrainerMemory(
        weights=weights,
        gradients=gradients,
        moments=moments,
        reference=-(-reference // layout.ranks) if layout.sharded else reference,
        critic=critic,
        activations=layout.lanes * activation_bytes(spec, shape),
        logits=layout.lanes * chunk * shape.vocabulary * LOGIT_BYTES,
        reserve=PROCESS if layout.one_machine else RESERVE,
    )


def pack_tokens(spec: RunSpec) -> int:
    """The most tokens of one forward and backward pass."""
    return max(spec.update.micro_batch_tokens, spec.model.context)


def activation_bytes(spec: RunSpec, shape: Architecture) -> int:
    """What a forward pass over one pack keeps for the backward pass, without the logits.

    Of each token a block keeps the inputs and outputs of its two norms (4 hidden), queries and the
    attention's output (2 of all heads), keys and values, and four arrays of the feed-forward
    block. With gradient checkpointing, every block keeps its input, and one block at a time keeps
    all."""
    width = WIDTHS[spec.model.dtype]
    heads = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_width
    block = 4 * shape.hidden + heads + 4 * shape.intermediate
    blocks = shape.layers * block
    if spec.update.gradient_checkpointing:
        blocks = shape.layers * shape.hidden + block
    return pack_tokens(spec) * width * blocks


def _model_state(size: ModelSize, width: int, layout: Layout) -> tuple[int, int, int]:
    """Bytes of weights, gradients and moments of a model on each device."""
    trainable, frozen = size.trainable, size.total - size.trainable
    if layout.sharded:
        shards = layout.ranks
        # Two blocks are gathered at a time, and the gradient of one is not yet scattered. What is
        # outside of the blocks stays gathered.
        gathered = size.block * (2 * width + 4) + size.root * width
        return (
            -(-(trainable * 4 + frozen * width) // shards) + gathered,
            -(-trainable * 4 // shards),
            -(-trainable * 8 // shards),
        )
    copy = width if width != 4 else 0
    # The optimizer step sums the lanes into one more vector.
    return (
        trainable * (4 + copy) + frozen * width,
        trainable * 4 * (LANES + 1),
        trainable * 8,
    )
