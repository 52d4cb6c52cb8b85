"""Compile all functions for CPUs, and keep their machine code in `NUMBA_CACHE_DIR`: a step of the
build of an image."""

from __future__ import annotations

import torch

from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.engines.torch_engine.slot_passes import SlotPasses
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.model.shape import tiny_shape
from agentrl_components.spec.fields.model import Tiny

VOCABULARY = 8


def main() -> None:
    """Sample from a model, and compute its gradients. Machine code depends on the types of arrays,
    not on their sizes, so that of a tiny model serves all."""
    decoder = Decoder(tiny_shape(Tiny(), VOCABULARY))
    decoder.initialise(torch.Generator().manual_seed(0))
    with torch.inference_mode():
        SlotPasses(decoder).logits([[1, 2, 3]], [Session(0)])
    attend = PackedCausal([3], torch.device("cpu"))
    decoder(torch.tensor([1, 2, 3]), attend.positions_N, attend).sum().backward()


if __name__ == "__main__":
    main()
