"""How many blocks of a sharded model recompute their activations on the device of a rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import FLASH_TYPES
from agentrl_components.sharded.model import DTYPES, local_rows
from agentrl_components.sharded.pass_memory import (
    PADDING,
    RESERVE,
    SHARE,
    activation_bytes,
    fewest_recomputed,
    gathered_bytes,
    logits_bytes,
)
from agentrl_components.spec import RunSpec


def set_recomputed(decoders: Sequence[CausalModel], spec: RunSpec) -> None:
    """Set how many blocks of the decoders, which have been opened just now, recompute their
    activations: none without `update.gradientCheckpointing`; with it as few as the GPU has memory
    for, on all ranks as many as on the one that needs most. With `update.compile`, the memory that
    is left then is for logits. Results depend on it by rounding only. A collective call.

    All blocks recompute on CPUs, and where a block's memory is not known: in models of
    transformers, and in float32, whose attention pads episodes on a GPU."""
    first, number, room = decoders[0], 0, 0
    known = isinstance(first, Decoder) and DTYPES[spec.model.dtype] in FLASH_TYPES
    if known and first.device.type == "cuda":
        room = _room(first.device) - bytes_to_come(decoders, spec)
    if spec.update.gradient_checkpointing:
        number = fewest_recomputed(spec, first.shape, room, PADDING)
        most = torch.tensor(number, device=first.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        number = int(most)
    left = max(0, room - activation_bytes(spec, first.shape, number, PADDING))
    for decoder in decoders:
        decoder.recomputed = number
        decoder.logits_room = left if decoder.compiled else 0


def _room(device: torch.device) -> int:
    """Bytes of a GPU that a trainer may still take. Its communication buffers are not there yet."""
    free, total = torch.cuda.mem_get_info(device)
    others = max(RESERVE, total - free - torch.cuda.memory_reserved(device))
    return int(SHARE * total) - others - torch.cuda.memory_allocated(device)


def bytes_to_come(decoders: Sequence[CausalModel], spec: RunSpec) -> int:
    """Bytes that decoders which have just been opened will take on this rank beside activations: a
    gradient and two moments of each trained parameter, what a pass gathers, and logits."""
    trained = [p for decoder in decoders for p in decoder.parameters() if p.requires_grad]
    state = 12 * sum(local_rows(parameter).numel() for parameter in trained)
    blocks = [sum(p.numel() for p in block.parameters()) for block in decoders[0].blocks()]
    outside = sum(p.numel() for p in decoders[0].parameters()) - sum(blocks)
    gathered = gathered_bytes(spec, max(blocks), outside * len(decoders), dist.get_world_size())
    return state + gathered + logits_bytes(spec, decoders[0].shape)
