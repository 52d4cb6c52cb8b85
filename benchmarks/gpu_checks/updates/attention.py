"""Check of attention over packed episodes without padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gpu_checks.place import QWEN3_06B, Place, Skipped, seconds_of
from torch import Tensor

from agentrl_components.model.packed_attention import PackedCausal, has_varlen_kernel

LENGTHS = {"skewed": (16, 4096, 24, 700, 120, 1500, 32, 64), "equal": (4096,) * 4}
TOLERANCE = 2e-2
"""Of results and gradients in bfloat16, as a share of the largest: bfloat16 has 8 bits."""
PASSES = 20

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def check_packed_attention(place: Place) -> dict[str, Any]:
    """Results, gradients and times of torch's kernel for sequences of different lengths beside
    padded attention: for episodes of which one is much longer than the others, and for episodes of
    equal length."""
    return {name: compare(place, lengths) for name, lengths in LENGTHS.items()}


def compare(place: Place, lengths: Sequence[int]) -> dict[str, Any]:
    """Raises `AssertionError` if the two differ by more than rounding."""
    device = torch.device(place.device)
    heads, kv_heads = QWEN3_06B["num_attention_heads"], QWEN3_06B["num_key_value_heads"]
    draw = torch.Generator(device).manual_seed(0)
    q, k, v = (
        torch.randn(
            sum(lengths), count, 128, device=device, generator=draw, dtype=torch.bfloat16
        ).requires_grad_()
        for count in (heads, kv_heads, kv_heads)
    )
    if not has_varlen_kernel(q):
        raise Skipped("needs a GPU of compute capability 8.0 or more")
    attend = PackedCausal(lengths, device)
    ways: dict[str, Attention] = {
        "unpadded": attend.unpadded,
        "padded": attend.padded,
        "chosen": lambda *inputs: attend(0, *inputs),
    }
    found = {name: computed(way, q, k, v) for name, way in ways.items()}
    worst = max(
        float((one - other).abs().max() / other.abs().max())
        for one, other in zip(found["unpadded"], found["padded"], strict=True)
    )
    seconds = {name: timed(way, place, q, k, v) for name, way in ways.items()}
    assert worst <= TOLERANCE, f"results or gradients differ by {worst:.2g}"
    return {
        "difference": worst,
        "seconds": seconds,
        "ratio": seconds["padded"] / seconds["unpadded"],
    }


def computed(way: Attention, *inputs: Tensor) -> list[Tensor]:
    """The result, and the gradients of its sum of squares."""
    out = way(*inputs)
    gradients = torch.autograd.grad(out.float().square().sum(), inputs)
    return [one.float() for one in (out.detach(), *gradients)]


def timed(way: Attention, place: Place, *inputs: Tensor) -> float:
    """Seconds of a pass forward and backward, of `PASSES` in a row after some others."""
    out = way(*inputs)
    gradient = torch.randn_like(out)
    return seconds_of(lambda: torch.autograd.grad(way(*inputs), inputs, gradient), place, PASSES)
