"""Check of our Triton kernels beside what torch.compile generates for the same: the ablation that
shows what they are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gpu_checks.place import QWEN3_06B, Place, Skipped, seconds_of
from torch import Tensor

from agentrl_components.compilers import compiler
from agentrl_components.model.compilation import chosen
from agentrl_components.model.layer_functions import rms_norm, rotate
from agentrl_components.update.logprobs import free_scores

TOKENS = 65536
CHUNK = 4096
"""Tokens whose logits are scored together."""
TOLERANCE = 2e-2
"""Of results and gradients in bfloat16, as a share of the largest: bfloat16 has 8 bits."""
PASSES = 10


def check_kernels(place: Place) -> dict[str, Any]:
    """Results, gradients and times of both."""
    if place.cpu:
        raise Skipped("Triton has no backend for CPUs here")
    if compiler(place.device) is None:
        raise Skipped("no compiler is installed")
    return {"heads": compare_heads(place), "scores": compare_scores(place)}


def compare_heads(place: Place) -> dict[str, Any]:
    """Queries of `TOKENS` tokens, normalised and rotated."""
    from agentrl_components.model.triton_kernels.heads import rotate_heads

    heads, width = QWEN3_06B["num_attention_heads"], QWEN3_06B["head_dim"]
    x_NHD = drawn(place, TOKENS, heads, width).requires_grad_()
    weight_D = drawn(place, width).requires_grad_()
    angles_NP = drawn(place, TOKENS, width // 2)
    cos_NP, sin_NP = angles_NP.cos(), angles_NP.sin()
    generated = chosen(rotate_normed, compiled=True)
    ways: dict[str, Callable[[], Sequence[Tensor]]] = {
        "generated": lambda: [generated(x_NHD, weight_D, cos_NP, sin_NP)],
        "triton": lambda: [rotate_heads(x_NHD, weight_D, 1e-6, cos_NP, sin_NP)],
    }
    return compare(place, ways, (x_NHD, weight_D))


def rotate_normed(x_NHD: Tensor, weight_D: Tensor, cos_NP: Tensor, sin_NP: Tensor) -> Tensor:
    """What a decoder layer computes of queries and keys, by operations of torch."""
    return rotate(rms_norm(x_NHD, weight_D, 1e-6), cos_NP, sin_NP)


def compare_scores(place: Place) -> dict[str, Any]:
    """Log-probabilities and entropies of `CHUNK` tokens, with gradients of both."""
    from agentrl_components.model.triton_kernels.scores import score_tokens

    vocabulary = QWEN3_06B["vocab_size"]
    logits_CV = drawn(place, CHUNK, vocabulary).requires_grad_()
    targets_C = torch.arange(CHUNK, device=place.device)
    given = (logits_CV, targets_C, torch.ones(CHUNK, device=place.device), True)
    generated = chosen(free_scores, compiled=True)
    ways: dict[str, Callable[[], Sequence[Tensor]]] = {
        "generated": lambda: generated(*given),
        "triton": lambda: score_tokens(*given),  # last: its gradients overwrite the logits
    }
    return compare(place, ways, (logits_CV,))


def drawn(place: Place, *sizes: int) -> Tensor:
    """Normal numbers in bfloat16."""
    generator = torch.Generator(place.device).manual_seed(0)
    return torch.randn(*sizes, device=place.device, generator=generator, dtype=torch.bfloat16)


def compare(
    place: Place, ways: dict[str, Callable[[], Sequence[Tensor]]], inputs: Sequence[Tensor]
) -> dict[str, Any]:
    """Raises `AssertionError` if results or gradients differ by more than rounding."""
    found = {name: computed(way, inputs) for name, way in ways.items()}
    worst = max(
        float((one - other).abs().max() / other.abs().max())
        for one, other in zip(found["triton"], found["generated"], strict=True)
    )
    seconds = {name: timed(place, way, inputs) for name, way in ways.items()}
    assert worst <= TOLERANCE, f"results or gradients differ by {worst:.2g}"
    return {
        "difference": worst,
        "seconds": seconds,
        "ratio": seconds["generated"] / seconds["triton"],
    }


def computed(way: Callable[[], Sequence[Tensor]], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results, and the gradients of their sums."""
    out = way()
    gradients = torch.autograd.grad(torch.cat([one.float().flatten() for one in out]).sum(), inputs)
    return [one.detach().float() for one in (*out, *gradients)]


def timed(place: Place, way: Callable[[], Sequence[Tensor]], inputs: Sequence[Tensor]) -> float:
    """Seconds of a pass forward and backward, of `PASSES` in a row after some others."""
    ones = [torch.ones_like(one) for one in way()]
    return seconds_of(lambda: torch.autograd.grad(way(), inputs, ones), place, PASSES)
