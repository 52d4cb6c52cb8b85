"""Triton kernels for queries and keys: normalisation of each head, and rotary position embedding.

Each kernel reads and writes an array once. `benchmarks/gpu.py` (check `kernels`) compares them with
what torch.compile generates.

Legend: N tokens, H heads, D head width, P pairs of elements of a head, one from each of its halves
a and b, R rows of a program, which are heads of tokens, G programs.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

ROWS = 32
"""Rows that a program computes at a time."""
PROGRAMS = 1024
"""Most programs of the backward pass. Each sums the gradient of the weight over its rows."""


@triton.jit
def _halves(
    source: tl.tensor, place: tl.tensor, inside: tl.tensor, WIDTH: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Both halves of what begins at `place`, in float32."""
    a = tl.load(source + place, mask=inside, other=0.0)
    b = tl.load(source + place + WIDTH // 2, mask=inside, other=0.0)
    return a.to(tl.float32), b.to(tl.float32)


@triton.jit
def _store_halves(
    target: tl.tensor,
    place: tl.tensor,
    a: tl.tensor,
    b: tl.tensor,
    inside: tl.tensor,
    WIDTH: tl.constexpr,
) -> None:
    """Write both halves in the target's type."""
    tl.store(target + place, a.to(target.dtype.element_ty), mask=inside)
    tl.store(target + place + WIDTH // 2, b.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _rotation(
    cos_NP: tl.tensor,
    sin_NP: tl.tensor,
    token_R: tl.tensor,
    pair_P: tl.tensor,
    inside_RP: tl.tensor,
    WIDTH: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Cosines and sines of the rows' tokens, in float32."""
    place_RP = (token_R * (WIDTH // 2))[:, None] + pair_P[None, :]
    cos_RP = tl.load(cos_NP + place_RP, mask=inside_RP, other=0.0)
    sin_RP = tl.load(sin_NP + place_RP, mask=inside_RP, other=0.0)
    return cos_RP.to(tl.float32), sin_RP.to(tl.float32)


@triton.jit
def _scale(a_RP: tl.tensor, b_RP: tl.tensor, eps: tl.tensor, WIDTH: tl.constexpr) -> tl.tensor:
    """One over the root mean square of each row, [R, 1]."""
    mean_R = tl.sum(a_RP * a_RP + b_RP * b_RP, axis=1) / WIDTH
    return (1.0 / tl.sqrt(mean_R + eps))[:, None]


@triton.jit
def _rotate_heads(
    x_NHD: tl.tensor,
    token_stride: tl.tensor,
    weight_D: tl.tensor,
    cos_NP: tl.tensor,
    sin_NP: tl.tensor,
    out_NHD: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    HEADS: tl.constexpr,
    PAIRS: tl.constexpr,
    WIDTH: tl.constexpr,
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    row_R = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token_R, head_R = (row_R // HEADS).to(tl.int64), row_R % HEADS
    pair_P = tl.arange(0, PAIRS)
    kept_P = pair_P < WIDTH // 2
    inside_RP = (row_R < rows)[:, None] & kept_P[None, :]
    place_RP = (token_R * token_stride + head_R * WIDTH)[:, None] + pair_P[None, :]
    a_RP, b_RP = _halves(x_NHD, place_RP, inside_RP, WIDTH)
    if NORMED:
        weight_a_P, weight_b_P = _halves(weight_D, pair_P, kept_P, WIDTH)
        scale_R1 = _scale(a_RP, b_RP, eps, WIDTH)
        a_RP = a_RP * scale_R1 * weight_a_P[None, :]
        b_RP = b_RP * scale_R1 * weight_b_P[None, :]
    cos_RP, sin_RP = _rotation(cos_NP, sin_NP, token_R, pair_P, inside_RP, WIDTH)
    first_RP, second_RP = a_RP * cos_RP - b_RP * sin_RP, b_RP * cos_RP + a_RP * sin_RP
    target_RP = (row_R.to(tl.int64) * WIDTH)[:, None] + pair_P[None, :]
    _store_halves(out_NHD, target_RP, first_RP, second_RP, inside_RP, WIDTH)


@triton.jit
def _rotate_heads_backward(
    dout_NHD: tl.tensor,
    x_NHD: tl.tensor,
    token_stride: tl.tensor,
    weight_D: tl.tensor,
    cos_NP: tl.tensor,
    sin_NP: tl.tensor,
    dx_NHD: tl.tensor,
    dweight_GD: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    HEADS: tl.constexpr,
    PAIRS: tl.constexpr,
    WIDTH: tl.constexpr,
    NORMED: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    pair_P = tl.arange(0, PAIRS)
    kept_P = pair_P < WIDTH // 2
    if NORMED:
        weight_a_P, weight_b_P = _halves(weight_D, pair_P, kept_P, WIDTH)
        dweight_a_P = tl.zeros((PAIRS,), dtype=tl.float32)
        dweight_b_P = tl.zeros((PAIRS,), dtype=tl.float32)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row_R = start + tl.arange(0, ROWS)
        token_R, head_R = (row_R // HEADS).to(tl.int64), row_R % HEADS
        inside_RP = (row_R < rows)[:, None] & kept_P[None, :]
        source_RP = (row_R.to(tl.int64) * WIDTH)[:, None] + pair_P[None, :]
        first_RP, second_RP = _halves(dout_NHD, source_RP, inside_RP, WIDTH)
        cos_RP, sin_RP = _rotation(cos_NP, sin_NP, token_R, pair_P, inside_RP, WIDTH)
        da_RP = first_RP * cos_RP + second_RP * sin_RP
        db_RP = second_RP * cos_RP - first_RP * sin_RP
        if NORMED:
            place_RP = (token_R * token_stride + head_R * WIDTH)[:, None] + pair_P[None, :]
            a_RP, b_RP = _halves(x_NHD, place_RP, inside_RP, WIDTH)
            scale_R1 = _scale(a_RP, b_RP, eps, WIDTH)
            a_RP, b_RP = a_RP * scale_R1, b_RP * scale_R1
            dweight_a_P += tl.sum(da_RP * a_RP, axis=0)
            dweight_b_P += tl.sum(db_RP * b_RP, axis=0)
            da_RP, db_RP = da_RP * weight_a_P[None, :], db_RP * weight_b_P[None, :]
            along_R1 = (tl.sum(da_RP * a_RP + db_RP * b_RP, axis=1) / WIDTH)[:, None]
            da_RP = (da_RP - a_RP * along_R1) * scale_R1
            db_RP = (db_RP - b_RP * along_R1) * scale_R1
        _store_halves(dx_NHD, source_RP, da_RP, db_RP, inside_RP, WIDTH)
    if NORMED:
        sums_P = tl.program_id(0) * WIDTH + pair_P
        _store_halves(dweight_GD, sums_P, dweight_a_P, dweight_b_P, kept_P, WIDTH)


def rotate_heads(
    x_NHD: Tensor, weight_D: Tensor | None, eps: float, cos_NP: Tensor, sin_NP: Tensor
) -> Tensor:
    """`x_NHD` with each head normalised by its root mean square (arXiv 1910.07467) and multiplied
    by `weight_D`, or without if that is None; then with rotary position embedding (arXiv
    2104.09864), in Llama's half-split layout. Computed in float32."""
    out_NHD: Tensor = _RotateHeads.apply(x_NHD, weight_D, eps, cos_NP, sin_NP)  # type: ignore[no-untyped-call]
    return out_NHD


class _RotateHeads(torch.autograd.Function):
    """`rotate_heads`. Kept for the backward pass: the inputs; `x_NHD` only if it is normalised."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x_NHD: Tensor,
        weight_D: Tensor | None,
        eps: float,
        cos_NP: Tensor,
        sin_NP: Tensor,
    ) -> Tensor:
        tokens, heads, width = x_NHD.shape
        assert x_NHD.stride()[1:] == (width, 1)
        cos_NP, sin_NP = cos_NP.contiguous(), sin_NP.contiguous()
        normed_NHD = None if weight_D is None else x_NHD
        ctx.save_for_backward(normed_NHD, weight_D, cos_NP, sin_NP)  # type: ignore[arg-type]
        ctx.eps = eps  # type: ignore[attr-defined]
        out_NHD = x_NHD.new_empty(x_NHD.shape)
        rows = tokens * heads
        _rotate_heads[(triton.cdiv(rows, ROWS),)](
            x_NHD,
            x_NHD.stride(0),
            x_NHD if weight_D is None else weight_D,
            cos_NP,
            sin_NP,
            out_NHD,
            rows,
            eps,
            HEADS=heads,
            PAIRS=triton.next_power_of_2(width // 2),
            WIDTH=width,
            NORMED=weight_D is not None,
            ROWS=ROWS,
        )
        return out_NHD

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dout_NHD: Tensor) -> tuple[Tensor | None, ...]:
        saved: Any = ctx.saved_tensors  # type: ignore[attr-defined]
        normed_NHD, weight_D, cos_NP, sin_NP = saved
        dout_NHD = dout_NHD.contiguous()
        x_NHD = dout_NHD if normed_NHD is None else normed_NHD  # not read without a weight
        tokens, heads, width = dout_NHD.shape
        rows = tokens * heads
        programs = min(triton.cdiv(rows, ROWS), PROGRAMS)
        dx_NHD = torch.empty_like(dout_NHD)
        dweight_GD = dout_NHD.new_empty((programs, width), dtype=torch.float32)
        _rotate_heads_backward[(programs,)](
            dout_NHD,
            x_NHD,
            x_NHD.stride(0),
            x_NHD if weight_D is None else weight_D,
            cos_NP,
            sin_NP,
            dx_NHD,
            dweight_GD,
            rows,
            ctx.eps,  # type: ignore[attr-defined]
            HEADS=heads,
            PAIRS=triton.next_power_of_2(width // 2),
            WIDTH=width,
            NORMED=weight_D is not None,
            ROWS=ROWS,
        )
        dweight_D = None if weight_D is None else dweight_GD.sum(0).to(weight_D.dtype)
        return dx_NHD, dweight_D, None, None, None
