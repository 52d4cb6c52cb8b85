"""Memory of a trainer, by what it is spent on.

Weights, gradients and moments are exact: they follow `update.flat_parameters` and
`update.optimizer`, or their sharded form. Activations are those of `sharded.passes.pass_memory`; a
test compares them with what autograd saves. `RESERVE` is an allowance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentrl_components.model.architecture import Architecture
from agentrl_components.sharded.passes.pass_memory import (
    MAX_PADDING,
    RESERVE,
    SHARE,
    SMALL,
    WIDTHS,
    PassSize,
    Recomputation,
    activation_bytes,
    gathered_bytes,
    kept_bytes,
    least_recomputation,
    logits_bytes,
    pack_tokens,
)
from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.layout import LANES, Layout
from agentrl_pipelines.sizing.model_size import ModelSize

PROCESS = 1 << 29
"""Bytes of a process with torch on a machine without GPUs. Measured with
`examples/babyai-ray.yaml`: 0.5 GiB."""


HAND_OVER = 4.5
"""Bytes with which a rank hands weights over, as a multiple of those of the largest weight: two
buffers, the weight that is gathered, what it is gathered from and into, and fragments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerMemory:
    """Bytes on each device of a trainer."""

    weights: int
    """Master weights, the copy in `model.dtype` that computes, and with `compute.sparseHandOver`
    the copy of what was handed over."""
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
    kept: int
    """Activations that are there at the same time as logits. Blocks that recompute theirs do so
    when the logits are freed."""
    again: Recomputation
    """What the backward pass computes again."""
    resident: int
    """What there is while engines on the same GPUs are awake: weights, moments, reference policy,
    and the reserve; on Ray also what hands weights over to an engine that replaces a lost one, and
    without Ray the vectors of gradients."""

    @property
    def total(self) -> int:
        """Bytes on each device."""
        state = self.weights + self.gradients + self.moments + self.reference + self.critic
        return state + max(self.kept + self.logits, self.activations) + self.reserve


def trainer_memory(
    spec: RunSpec, shape: Architecture, size: ModelSize, layout: Layout, memory: int = 0
) -> TrainerMemory:
    """Memory on each device of the trainers. `memory`: bytes of a GPU; with
    `update.gradientCheckpointing`, activations of sharded trainers take what is left of it. 0: they
    take as little as possible."""
    width = WIDTHS[spec.model.dtype]
    state = _model_state(spec, size, layout)
    kept = state.weights
    if spec.compute.sparse_hand_over:
        kept += -(-size.total * width // layout.ranks)
    reference = _reference_bytes(spec, size, layout)
    critic = _critic_state(spec, size, layout)
    reserve = PROCESS if layout.one_machine else RESERVE
    gathers = layout.turns and spec.model.lora is None  # adapters are small
    hand_over = int(HAND_OVER * size.largest * width) if gathers else 0
    stays = kept + state.moments + state.vectors + reference + reserve
    stays += critic.weights + critic.moments + critic.vectors
    least = TrainerMemory(
        weights=kept + state.gathered,
        gradients=state.gradients,
        moments=state.moments,
        reference=reference,
        critic=critic.total,
        activations=0,
        kept=0,
        logits=layout.lanes * logits_bytes(spec, shape),
        reserve=reserve,
        again=Recomputation(blocks=shape.layers if spec.update.gradient_checkpointing else 0),
        resident=stays + hand_over,
    )
    size_of_pass, again = PassSize(tokens=pack_tokens(spec)), least.again
    known = width == 2 and shape.counted is None
    if again.blocks and layout.sharded and not layout.one_machine and known:
        room = int(SHARE * layout.room(memory, 0)) - least.total
        again = least_recomputation(spec, shape, replace(size_of_pass, padding=MAX_PADDING), room)
    return replace(
        least,
        activations=layout.lanes * activation_bytes(spec, shape, size_of_pass, again),
        kept=layout.lanes * kept_bytes(spec, shape, size_of_pass, again),
        again=again,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelState:
    """Bytes of a model on each device."""

    weights: int
    """Those that stay between two updates."""
    gathered: int
    """Those that an update gathers."""
    gradients: int
    vectors: int
    """Those of the gradients that stay between two updates."""
    moments: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gathered + self.gradients + self.moments


def _model_state(spec: RunSpec, size: ModelSize, layout: Layout) -> _ModelState:
    """Bytes of a model on each device."""
    width = WIDTHS[spec.model.dtype]
    trainable, frozen = size.trainable, size.total - size.trainable
    if layout.sharded:
        shards = layout.ranks
        gathered = gathered_bytes(spec, size.block, size.root, shards)
        own = 0
        if layout.one_machine and shards > 1:  # as `sharded.passes.recomputation.PassRoom` decides
            blocks = (size.total - size.root) * width
            gathered += blocks if blocks <= SMALL else 0
            own = 4 * trainable if 4 * trainable <= SMALL else 0
        return _ModelState(
            weights=-(-(trainable * 4 + frozen * width) // shards),
            gathered=gathered,
            gradients=-(-trainable * 4 // shards) + own,
            vectors=0,
            moments=-(-trainable * 8 // shards),
        )
    copy = width if width != 4 else 0
    return _ModelState(
        weights=trainable * (4 + copy) + frozen * width,
        gathered=0,
        # The optimizer step sums the lanes into one more vector.
        gradients=trainable * 4 * (LANES + 1),
        vectors=trainable * 4 * LANES,
        moments=trainable * 8,
    )


def _critic_state(spec: RunSpec, size: ModelSize, layout: Layout) -> _ModelState:
    """Bytes of the critic on each device: a whole model of its own, without adapters."""
    if not spec.algorithm.traits.needs_critic:
        return _ModelState(weights=0, gathered=0, gradients=0, vectors=0, moments=0)
    return _model_state(spec, replace(size, trainable=size.total), layout)


def _reference_bytes(spec: RunSpec, size: ModelSize, layout: Layout) -> int:
    """Bytes of the reference policy on each device."""
    if spec.algorithm.kl.coefficient <= 0:
        return 0
    width = WIDTHS[spec.model.dtype]
    frozen = size.trainable if spec.model.lora is not None else size.total
    if layout.sharded:
        return -(-frozen * 4 // layout.ranks)
    return frozen * (4 + (width if width != 4 else 0))
