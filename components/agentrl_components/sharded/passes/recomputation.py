"""What passes of a sharded model keep in the memory of a rank's device, and compute again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import FLASH_TYPES, padded_tokens
from agentrl_components.sharded.model import DTYPES
from agentrl_components.sharded.passes.pass_memory import (
    MAX_PADDING,
    RESERVE,
    SHARE,
    SMALL,
    WIDTHS,
    PassSize,
    Recomputation,
    activation_bytes,
    copied_bytes,
    gathered_bytes,
    least_recomputation,
    logits_bytes,
    pack_tokens,
)
from agentrl_components.sharded.rows import local_rows
from agentrl_components.spec import RunSpec


class PassRoom:
    """The memory of the device that a pass forward and backward may take.

    A pass computes as little again as the memory demands; no blocks without
    `update.gradientCheckpointing`, and logits always without `update.compile`. Results depend on it
    by rounding only.

    All blocks compute their activations again on CPUs, and where a block's memory is not known: in
    models of transformers, and in float32, whose attention pads episodes on a GPU."""

    def __init__(
        self,
        decoders: Sequence[CausalModel],
        spec: RunSpec,
        room: int | None = None,
        small: int = SMALL,
    ) -> None:
        """`decoders` have been opened just now. `room`: bytes for the activations of a pass; None:
        what is left on this rank's device. `small`: as `SMALL`. A collective call: the ranks have
        to agree on what stays gathered, so all take the least room of any."""
        self._spec, self._small = spec, small
        self._shape = decoders[0].shape
        self._device = decoders[0].device
        if room is None:
            room = _free_for_passes(decoders, spec)
        self._known = room is not None
        least = torch.tensor(room or 0, device=self._device)
        dist.all_reduce(least, dist.ReduceOp.MIN)
        self.bytes = int(least)
        """For the activations of a pass. 0: not known, or none."""
        self.keeps_weights = self._keep_weights(decoders)
        """Whether weights stay between the passes of an update."""
        self.exchanges_once = self._keep_gradients(decoders[0])
        """Whether ranks exchange gradients once in an update, and not after each pass. A rank holds
        the sum of its own gradients until then."""

    def fit(self, decoder: CausalModel, lengths: Sequence[int], free: int = 0) -> None:
        """Set what the next pass of `decoder` recomputes. The pack has episodes of `lengths` [B]
        tokens; `free` as in `PassSize`. Not a collective call: FSDP2 gathers a block for its
        backward pass whether it recomputes or not, so ranks may differ."""
        tokens = sum(lengths)
        padded = padded_tokens(lengths, self._device) if self._known else tokens
        size = PassSize(tokens=tokens, padding=padded / tokens, free=free)
        again = self.recomputation(size, self.bytes)
        decoder.recomputed, decoder.selective = again.blocks, again.selective
        decoder.keeps_logits = not again.logits

    def recomputation(self, size: PassSize, room: int) -> Recomputation:
        """What a pass computes again, if it may take `room` bytes."""
        if self._known:
            return least_recomputation(self._spec, self._shape, size, room)
        checkpointing = self._spec.update.gradient_checkpointing
        return Recomputation(blocks=self._shape.layers if checkpointing else 0)

    def _keep_weights(self, decoders: Sequence[CausalModel]) -> bool:
        """Let the blocks' weights stay gathered until the last pass of an update, if there is room.
        Otherwise each pass forward and each pass backward gathers them. Copies (`CopiedWeights`)
        always stay."""
        if not isinstance(decoders[0], FSDPModule):
            return True
        blocks = sum(p.numel() for block in decoders[0].blocks() for p in block.parameters())
        if not self._take(blocks * WIDTHS[self._spec.model.dtype]):
            return False
        for decoder in decoders:
            assert isinstance(decoder, FSDPModule)
            decoder.set_reshard_after_forward(False)
            decoder.set_reshard_after_backward(False)
        return True

    def _keep_gradients(self, decoder: CausalModel) -> bool:
        trained = sum(p.numel() for p in decoder.parameters() if p.requires_grad)
        return isinstance(decoder, FSDPModule) and self._take(4 * trained)

    def _take(self, size: int) -> bool:
        """Take `size` bytes of the room, if the largest pack has to compute nothing more again for
        that. Returns whether they are taken."""
        if not self._known:
            return self._device.type == "cpu" and size <= self._small
        room, largest = self.bytes - size, PassSize(tokens=pack_tokens(self._spec))
        again = self.recomputation(largest, room)
        fits = activation_bytes(self._spec, self._shape, largest, again) <= room
        if not fits or again != self.recomputation(largest, self.bytes):
            return False
        self.bytes = room
        return True


def _free_for_passes(decoders: Sequence[CausalModel], spec: RunSpec) -> int | None:
    """Bytes of this rank's device for the activations of a pass. None: the memory of a block is not
    known."""
    first = decoders[0]
    known = isinstance(first, Decoder) and DTYPES[spec.model.dtype] in FLASH_TYPES
    if not known or first.device.type != "cuda":
        return None
    return max(0, _free(first.device) - bytes_to_come(decoders, spec))


def _free(device: torch.device) -> int:
    """Bytes of a GPU that a trainer may still take. Its communication buffers are not there yet."""
    free, total = torch.cuda.mem_get_info(device)
    others = max(RESERVE, total - free - torch.cuda.memory_reserved(device))
    return int(SHARE * total) - others - torch.cuda.memory_allocated(device)


def bytes_to_come(decoders: Sequence[CausalModel], spec: RunSpec) -> int:
    """Bytes that decoders which have just been opened will take on this rank beside activations: a
    gradient and two moments of each trained parameter, the copy of what was handed over, the
    weights that a pass gathers or copies with its first gradients, and logits."""
    first = decoders[0]
    trained = [p for decoder in decoders for p in decoder.parameters() if p.requires_grad]
    state = 12 * sum(local_rows(parameter).numel() for parameter in trained)
    blocks = [sum(p.numel() for p in block.parameters()) for block in first.blocks()]
    outside = sum(p.numel() for p in first.parameters()) - sum(blocks)
    if isinstance(first, FSDPModule):
        ranks = dist.get_world_size()
        weights = gathered_bytes(spec, max(blocks), outside * len(decoders), ranks)
    else:  # of one decoder at a time
        largest = max(
            sum(p.numel() for p in decoder.parameters() if p.requires_grad) for decoder in decoders
        )
        weights = copied_bytes(spec, largest, outside)
    handed = 0
    if spec.compute.sparse_hand_over:
        handed = WIDTHS[spec.model.dtype] * sum(local_rows(p).numel() for p in first.parameters())
    return state + handed + weights + logits_bytes(spec, first.shape)


def copies_fit(decoder: CausalModel, spec: RunSpec, device: torch.device) -> bool:
    """Of a run with one rank: whether its memory suffices for copies of all weights and for the
    gradients of one pass (`CopiedWeights`). `decoder` is the policy on the meta device. True on a
    CPU, and with LoRA, whose weights are small."""
    if device.type != "cuda" or spec.model.lora is not None:
        return True
    return whole_bytes(decoder, spec) <= _free(device)


def whole_bytes(decoder: CausalModel, spec: RunSpec) -> int:
    """Bytes of the only rank with copies of all weights and a pass's gradients of them, if the
    largest pass computes as much again as it may."""
    total, width = sum(p.numel() for p in decoder.parameters()), WIDTHS[spec.model.dtype]
    state = 16 * total * (2 if spec.algorithm.traits.needs_critic else 1)
    gradients = 1
    copies = (width != 4) + (spec.algorithm.kl.coefficient > 0) + spec.compute.sparse_hand_over
    size = PassSize(tokens=pack_tokens(spec), padding=MAX_PADDING)
    shape = decoder.shape
    again = Recomputation(blocks=shape.layers if spec.update.gradient_checkpointing else 0)
    activations = activation_bytes(spec, shape, size, again) + logits_bytes(spec, shape)
    return state + (copies + gradients) * width * total + activations
