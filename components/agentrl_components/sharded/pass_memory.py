"""Memory of a pass forward and backward over one pack, and how many blocks have to compute their
activations again.

The blocks that compute their activations again are the first ones. The backward pass gets to them
last, when those of all others are freed.
"""

from __future__ import annotations

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
PADDING = 1.8
"""Tokens in the attention of GPUs, as a multiple of those of the pack: at most `DENSE_SPEED` of
`model.packed_attention`, above which episodes are not padded."""


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


def logits_bytes(spec: RunSpec, shape: Architecture) -> int:
    """Bytes of the logits of a chunk and of their gradients."""
    return min(spec.update.logits_chunk, pack_tokens(spec)) * shape.vocabulary * LOGIT_BYTES


def block_bytes(spec: RunSpec, shape: Architecture, padding: float = 1.0) -> int:
    """What a block keeps of one token for the backward pass: the inputs and outputs of its two
    norms (4 hidden), queries and the attention's output (2 of all heads), keys and values, and four
    arrays of the feed-forward block. Of these torch.compile computes one again, or two: on an H100
    a pass kept 1.6 fewer. `padding`: tokens in the attention, as a multiple of those of the pack.
    """
    heads = (2 * shape.heads + 2 * shape.kv_heads) * shape.head_width
    feed_forward = (3 if spec.update.compile else 4) * shape.intermediate
    numbers = 4 * shape.hidden + feed_forward + heads * padding
    return int(WIDTHS[spec.model.dtype] * numbers)


def kept_bytes(spec: RunSpec, shape: Architecture, recomputed: int, padding: float = 1.0) -> int:
    """Bytes that a forward pass over one pack keeps for the backward pass, without the logits, if
    the first `recomputed` blocks keep their inputs only."""
    inputs = recomputed * shape.hidden * WIDTHS[spec.model.dtype]
    blocks = (shape.layers - recomputed) * block_bytes(spec, shape, padding)
    return pack_tokens(spec) * (inputs + blocks)


def activation_bytes(
    spec: RunSpec, shape: Architecture, recomputed: int, padding: float = 1.0
) -> int:
    """The most bytes of activations in a pass, as in `kept_bytes`. If all blocks recompute, one at
    a time adds its activations; else those of a block that kept them are freed before."""
    kept = kept_bytes(spec, shape, recomputed, padding)
    again = block_bytes(spec, shape, padding) if recomputed == shape.layers else 0
    return kept + pack_tokens(spec) * again


def fewest_recomputed(spec: RunSpec, shape: Architecture, room: int, padding: float) -> int:
    """The fewest blocks that have to recompute their activations, so that those of a pass take
    `room` bytes or less. All, if that is not enough either."""
    fits = (
        number
        for number in range(shape.layers)
        if activation_bytes(spec, shape, number, padding) <= room
    )
    return next(fits, shape.layers)
