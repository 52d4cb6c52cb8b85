"""Triton kernels for log-probabilities and entropies of tokens, from logits in the model's type.

The forward pass reads the logits once, the backward pass reads them once and writes their gradient
in their place. No copy of them in float32 is stored.

Legend: C tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.autograd.graph import increment_version

COLUMNS = 4096
"""Logits that a program reads at a time."""
WARPS = 8


@triton.jit
def _score(
    logits_CV: tl.tensor,
    stride: tl.tensor,
    targets_C: tl.tensor,
    temperature_C: tl.tensor,
    logprob_C: tl.tensor,
    total_C: tl.tensor,
    entropy_C: tl.tensor,
    vocabulary: tl.tensor,
    COLUMNS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    temperature = tl.load(temperature_C + row)
    column_V = tl.arange(0, COLUMNS)
    # The largest logit so far, and of each column the sums of exp(logit - largest) and of
    # (logit - largest) exp(logit - largest), as in arXiv 1805.02867.
    largest = -float("inf")
    sum_V = tl.zeros((COLUMNS,), dtype=tl.float32)
    weighted_V = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, vocabulary, COLUMNS):
        inside_V = start + column_V < vocabulary
        x_V = tl.load(logits_CV + row * stride + start + column_V, mask=inside_V, other=0.0)
        x_V = tl.where(inside_V, x_V.to(tl.float32) / temperature, -float("inf"))
        higher = tl.maximum(largest, tl.max(x_V, axis=0))
        drop = tl.where(start == 0, 0.0, largest - higher)
        scale = tl.exp(drop)
        below_V = tl.where(inside_V, x_V - higher, 0.0)
        exp_V = tl.where(inside_V, tl.exp(below_V), 0.0)
        weighted_V = scale * (weighted_V + drop * sum_V) + below_V * exp_V
        sum_V = scale * sum_V + exp_V
        largest = higher
    weighted, total = tl.sum(weighted_V, axis=0), tl.sum(sum_V, axis=0)
    target = tl.load(logits_CV + row * stride + tl.load(targets_C + row)).to(tl.float32)
    tl.store(logprob_C + row, target / temperature - largest - tl.log(total))
    tl.store(total_C + row, largest + tl.log(total))
    tl.store(entropy_C + row, tl.log(total) - weighted / total)


@triton.jit
def _score_backward(
    logits_CV: tl.tensor,
    stride: tl.tensor,
    targets_C: tl.tensor,
    temperature_C: tl.tensor,
    total_C: tl.tensor,
    entropy_C: tl.tensor,
    dlogprob_C: tl.tensor,
    dentropy_C: tl.tensor,
    vocabulary: tl.tensor,
    HAS_ENTROPY: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column_V = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside_V = column_V < vocabulary
    temperature, total = tl.load(temperature_C + row), tl.load(total_C + row)
    target, dlogprob = tl.load(targets_C + row), tl.load(dlogprob_C + row)
    x_V = tl.load(logits_CV + row * stride + column_V, mask=inside_V, other=0.0).to(tl.float32)
    logprob_V = x_V / temperature - total
    prob_V = tl.exp(logprob_V)
    gradient_V = dlogprob * (tl.where(column_V == target, 1.0, 0.0) - prob_V)
    if HAS_ENTROPY:
        excess_V = logprob_V + tl.load(entropy_C + row)
        gradient_V -= tl.load(dentropy_C + row) * prob_V * excess_V
    gradient_V = (gradient_V / temperature).to(logits_CV.dtype.element_ty)
    tl.store(logits_CV + row * stride + column_V, gradient_V, mask=inside_V)


def score_tokens(
    logits_CV: Tensor, targets_C: Tensor, temperature_C: Tensor, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-probability [C] of each target token, and entropy [C] of its distribution, in nats, if
    every token is allowed. The entropy has a gradient if `entropy_gradient`. Computed in float32.

    The backward pass overwrites the logits, so there can be one only, and nothing else may use
    them."""
    given = (logits_CV, targets_C, temperature_C, entropy_gradient)
    logprob_C, entropy_C = _Scores.apply(*given)  # type: ignore[no-untyped-call]
    return logprob_C, entropy_C


class _Scores(torch.autograd.Function):
    """`score_tokens`. Kept for the backward pass: the logits, which become their gradient."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        logits_CV: Tensor,
        targets_C: Tensor,
        temperature_C: Tensor,
        entropy_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = logits_CV.shape
        assert logits_CV.stride(1) == 1
        temperature_C = temperature_C.float().contiguous()
        logprob_C, total_C, entropy_C = (torch.empty_like(temperature_C) for _ in range(3))
        if tokens:
            _score[(tokens,)](
                logits_CV,
                logits_CV.stride(0),
                targets_C,
                temperature_C,
                logprob_C,
                total_C,
                entropy_C,
                vocabulary,
                COLUMNS=COLUMNS,
                num_warps=WARPS,
            )
        ctx.save_for_backward(logits_CV, targets_C, temperature_C, total_C, entropy_C)
        if not entropy_gradient:
            ctx.mark_non_differentiable(entropy_C)
        ctx.entropy_gradient = entropy_gradient  # type: ignore[attr-defined]
        return logprob_C, entropy_C

    @staticmethod
    @once_differentiable
    def backward(
        ctx: FunctionCtx, dlogprob_C: Tensor, dentropy_C: Tensor
    ) -> tuple[Tensor | None, ...]:
        saved: Any = ctx.saved_tensors  # type: ignore[attr-defined]
        logits_CV, targets_C, temperature_C, total_C, entropy_C = saved
        tokens, vocabulary = logits_CV.shape
        if tokens:
            _score_backward[(tokens, triton.cdiv(vocabulary, COLUMNS))](
                logits_CV,
                logits_CV.stride(0),
                targets_C,
                temperature_C,
                total_C,
                entropy_C,
                dlogprob_C.contiguous(),
                dentropy_C.contiguous(),
                vocabulary,
                HAS_ENTROPY=ctx.entropy_gradient,  # type: ignore[attr-defined]
                COLUMNS=COLUMNS,
                num_warps=WARPS,
            )
        # The kernel has written where autograd does not see it: a second backward pass is an error.
        increment_version(logits_CV)
        return logits_CV, None, None, None
