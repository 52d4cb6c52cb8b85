"""A small architecture of the decoder."""

from dataclasses import replace

from agentrl_components.model.architecture import Architecture, Rope

LLAMA = Architecture(
    family="llama",
    vocabulary=23,
    hidden=16,
    intermediate=32,
    layers=2,
    heads=2,
    kv_heads=1,
    head_width=8,
    eps=1e-6,
    rope=Rope(),
    tied=False,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    normed=False,
)
QWEN2 = replace(LLAMA, family="qwen2", tied=True, qkv_bias=True)
