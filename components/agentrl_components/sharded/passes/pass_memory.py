"""Memory of a pass forward and backward over one pack, and what the backward pass has to compute
again.

The blocks that compute all of their activations again are the first ones. The backward pass gets to
them last, when those of all others are freed.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec

WIDTHS = {"float32": 4, "bfloat16": 2}
"""Bytes of a number by `model.dtype`."""
LOGIT_BYTES = 18
"""Bytes per logit of a chunk: logits in the model's type, in float32, divided by the temperature,
and their gradients."""
RESERVE = 2 << 30
"""Bytes for the CUDA context and communication buffers on a GPU."""
SHARE = 0.9
"""Share of a GPU's memory that a trainer plans with. The rest is for the fragments of memory that
packs of different sizes leave."""
SMALL = 256 << 20
"""Bytes of weights, and of gradients, that a rank on a CPU holds whole, where the memory is not
known."""
MAX_PADDING = 1.8
"""Largest ratio of padded to real tokens in attention on GPUs: `DENSE_SPEED` of
`model.packed_attention`, above which episodes are not padded."""
SELECTIVE_COST = 0.13
"""Time of the selective recomputation of a block, relative to that of its full recomputation: the
times of its kernels (torch's profiler) in the update of 65,536 tokens of `benchmarks/gpu.py`, on an
H100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSize:
    """The pack of a pass."""

    tokens: int
    padding: float = 1.0
    """Tokens in the attention, as a multiple of those of the pack."""
    free: int = 0
    """Sampled tokens whose logits can be kept: all of a pack of free replies, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """What the backward pass computes again."""

    blocks: int = 0
    """The first blocks, which keep their inputs only."""
    selective: bool = False
    """Whether the other blocks keep results of matrix products and attention only."""
    logits: bool = True
    """Whether logits are computed again, chunk by chunk."""

    def cost(self, shape: Architecture, size: PassSize) -> float:
        """Time of recomputation, in units of one fully recomputed block. Logits cost the operations
        of their product, relative to those of a block's products."""
        heads = 2 * (shape.heads + shape.kv_heads) * shape.head_width
        block = size.tokens * (heads + 3 * shape.intermediate)
        logits = size.free * shape.vocabulary / block if self.logits else 0.0
        return self.blocks + self.selective * SELECTIVE_COST * (shape.layers - self.blocks) + logits


def pack_tokens(spec: RunSpec) -> int:
    """The most tokens of one forward and backward pass."""
    return max(spec.update.micro_batch_tokens, spec.model.context)


def gathered_bytes(spec: RunSpec, block: int, outside: int, ranks: int) -> int:
    """Bytes of what each rank of FSDP2 gathers: the weights of two blocks, which have `block`
    parameters each, and a float32 gradient of one; weights and gradients of the `outside`
    parameters that are in no block, until the pass ends. Several ranks also have the block's
    gradient as it is before they exchange it, and the buffer in which the parameters outside
    arrive, whose memory torch keeps for later gathers."""
    width = WIDTHS[spec.model.dtype]
    exchanged = width if ranks > 1 else 0
    return block * (2 * width + 4 + exchanged) + outside * (2 * width + exchanged)


def copied_bytes(spec: RunSpec, trained: int, outside: int) -> int:
    """Bytes of what the only rank holds (`pass_weights.CopiedWeights`) when a backward pass begins:
    copies of the `trained` weights, unless they are computed in float32, and gradients of those
    `outside` of the blocks. Gradients of a block take the place of its activations."""
    width = WIDTHS[spec.model.dtype]
    return (trained * width if width != 4 else 0) + outside * width


def logits_bytes(spec: RunSpec, shape: Architecture) -> int:
    """Bytes of the logits of a chunk and of their gradients."""
    return min(spec.update.logits_chunk, pack_tokens(spec)) * shape.vocabulary * LOGIT_BYTES


def block_bytes(
    spec: RunSpec, shape: Architecture, padding: float = 1.0, *, selective: bool = False
) -> int:
    """Bytes that a block keeps of one token for the backward pass. `padding` as in `PassSize`.

    These are the inputs and outputs of its two norms, queries and the attention's output, keys and
    values, and four arrays of the feed-forward block, of which torch.compile computes one again.
    With `update.compile`, queries and keys that are normalised are kept before that too. With
    `selective`, of each norm one array is kept, queries and keys before their rotation only, and
    two arrays of the feed-forward block."""
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    if selective:
        padded = queries
        flat = 2 * shape.hidden + 2 * shape.intermediate + queries + 2 * keys
    else:
        padded = 2 * queries + 2 * keys
        flat = 4 * shape.hidden + (3 if spec.update.compile else 4) * shape.intermediate
        if spec.update.compile and shape.normed:
            flat += queries + keys
    if padding > 1 and spec.update.compile:
        flat += queries  # the output of the attention without its padding
    return int(WIDTHS[spec.model.dtype] * (flat + padded * padding))


def kept_bytes(spec: RunSpec, shape: Architecture, size: PassSize, again: Recomputation) -> int:
    """Bytes that blocks keep for the backward pass."""
    inputs = again.blocks * shape.hidden * WIDTHS[spec.model.dtype]
    block = block_bytes(spec, shape, size.padding, selective=again.selective)
    return size.tokens * (inputs + (shape.layers - again.blocks) * block)


def activation_bytes(
    spec: RunSpec, shape: Architecture, size: PassSize, again: Recomputation
) -> int:
    """The peak of a pass in bytes, without the logits of one chunk: activations that blocks keep,
    and logits that are kept. Blocks recompute after the logits are freed. If all blocks do, the
    activations of one at a time are added; otherwise those of a block that kept them are freed
    first."""
    logits = 0
    if not again.logits:
        # Their gradient takes their place.
        kept = size.free * shape.vocabulary * WIDTHS[spec.model.dtype]
        logits = max(0, kept - logits_bytes(spec, shape))
    one = block_bytes(spec, shape, size.padding) if again.blocks == shape.layers else 0
    return kept_bytes(spec, shape, size, again) + max(logits, size.tokens * one)


def least_recomputation(
    spec: RunSpec, shape: Architecture, size: PassSize, room: int
) -> Recomputation:
    """The cheapest recomputation with which a pass takes `room` bytes or less. If there is none,
    the one that takes least memory."""
    most = shape.layers if spec.update.gradient_checkpointing else 0
    # An adapter's products are as large as those of the weights beside it, and would be kept too.
    selective = most > 0 and spec.update.compile and spec.model.lora is None
    ways = [
        Recomputation(blocks=blocks, selective=way, logits=logits)
        for blocks in range(most + 1)
        for way in ((False, True) if selective and blocks < most else (False,))
        for logits in ((False, True) if spec.update.compile and size.free else (True,))
    ]
    for again in sorted(ways, key=lambda way: way.cost(shape, size)):
        if activation_bytes(spec, shape, size, again) <= room:
            return again
    return Recomputation(blocks=most)
