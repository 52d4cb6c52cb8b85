"""Architectures of Qwen2.5 (arXiv 2412.15115, table 1; vocabularies from the published configs),
and of Qwen3-0.6B (arXiv 2505.09388)."""

from __future__ import annotations

from dataclasses import replace

from agentrl_components.model.architecture import Architecture, Rope


def qwen(*, hidden, intermediate, layers, heads, kv_heads, vocabulary, tied) -> Architecture:
    return Architecture(
        family="qwen2",
        vocabulary=vocabulary,
        hidden=hidden,
        intermediate=intermediate,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_width=hidden // heads,
        eps=1e-6,
        rope=Rope(theta=1e6),
        tied=tied,
        qkv_bias=True,
        out_bias=False,
        mlp_bias=False,
        normed=False,
    )


QWEN_3B = qwen(
    hidden=2048,
    intermediate=11008,
    layers=36,
    heads=16,
    kv_heads=2,
    vocabulary=151_936,
    tied=True,
)
QWEN_7B = qwen(
    hidden=3584,
    intermediate=18_944,
    layers=28,
    heads=28,
    kv_heads=4,
    vocabulary=152_064,
    tied=False,
)
QWEN3_06B = replace(
    QWEN_3B,
    family="qwen3",
    hidden=1024,
    intermediate=3072,
    layers=28,
    kv_heads=8,
    qkv_bias=False,
    normed=True,
)
TOY = qwen(hidden=128, intermediate=384, layers=4, heads=8, kv_heads=2, vocabulary=64, tied=False)
