"""Compile all functions for CPUs, and keep their machine code in `NUMBA_CACHE_DIR`: a step of the
build of an image."""

from __future__ import annotations

import torch

from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.engines.torch_engine.slot_passes import SlotPasses
from agentrl_components.model.architecture import Architecture, Rope
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal

SHAPE = Architecture(
    family="llama",
    vocabulary=8,
    hidden=8,
    intermediate=8,
    layers=1,
    heads=2,
    kv_heads=1,
    head_width=4,
    eps=1e-6,
    rope=Rope(),
    tied=True,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    normed=False,
)
"""Any: machine code depends on the types of arrays, not on their sizes."""


def main() -> None:
    """Sample from a model, and compute its gradients."""
    decoder = Decoder(SHAPE)
    decoder.initialise(torch.Generator().manual_seed(0))
    with torch.inference_mode():
        SlotPasses(decoder).logits([[1, 2, 3]], [Session(0)])
    attend = PackedCausal([3], torch.device("cpu"))
    decoder(torch.tensor([1, 2, 3]), attend.positions_N, attend).sum().backward()


if __name__ == "__main__":
    main()
