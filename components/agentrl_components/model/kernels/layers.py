"""What a decoder layer computes beside attention and matrix products, for float32 on CPU.

Every number of a row is computed in an order that does not depend on the other rows.

Legend: N tokens, E hidden width, F feed-forward width, D head width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, REORDERED, compiled

SMALLEST = -87.0
"""exp(x) of a smaller x is not a normal number; it is taken as exp(-87)."""


@compiled(REORDERED)
def dot(a_D: NDArray[np.float32], b_D: NDArray[np.float32]) -> np.float32:
    """The scalar product of two vectors."""
    total = np.float32(0)
    for d in range(len(a_D)):
        total += a_D[d] * b_D[d]
    return total


@compiled(FUSED)
def exponentiate(x_N: NDArray[np.float32], powers_N: NDArray[np.int32]) -> None:
    """Replace numbers of at most 87 by their exponentials, with a relative error below 2e-7: the
    polynomial of Cephes' `expf`. `powers_N` is memory for intermediate results."""
    for n in range(len(x_N)):
        x = max(x_N[n], np.float32(SMALLEST))
        power = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
        x = x - power * np.float32(0.693359375)
        x = x + power * np.float32(2.12194440e-4)
        y = np.float32(1.9875691500e-4)
        y = y * x + np.float32(1.3981999507e-3)
        y = y * x + np.float32(8.3334519073e-3)
        y = y * x + np.float32(4.1665795894e-2)
        y = y * x + np.float32(1.6666665459e-1)
        y = y * x + np.float32(5.0000001201e-1)
        x_N[n] = y * x * x + x + np.float32(1)
        powers_N[n] = (np.int32(power) + np.int32(127)) << np.int32(23)
    factors_N = powers_N[: len(x_N)].view(np.float32)
    for n in range(len(x_N)):
        x_N[n] *= factors_N[n]


@compiled(FUSED)
def normalise(
    x_NE: NDArray[np.float32],
    weight_E: NDArray[np.float32],
    eps: np.float32,
    out_NE: NDArray[np.float32],
) -> None:
    """Set `out_NE` to the root mean square normalisation of `x_NE` (arXiv 1910.07467)."""
    width = x_NE.shape[1]
    for n in range(len(x_NE)):
        mean = dot(x_NE[n], x_NE[n]) / np.float32(width)
        factor = np.float32(1) / np.sqrt(mean + eps)
        for e in range(width):
            out_NE[n, e] = x_NE[n, e] * factor * weight_E[e]


@compiled(FUSED)
def sigmoid(
    x_F: NDArray[np.float32], out_F: NDArray[np.float32], powers_F: NDArray[np.int32]
) -> None:
    """Set `out_F` to 1 / (1 + exp(-x)). `powers_F` is memory for intermediate results."""
    for f in range(len(x_F)):
        out_F[f] = min(-x_F[f], np.float32(-SMALLEST))
    exponentiate(out_F, powers_F)
    for f in range(len(x_F)):
        out_F[f] = np.float32(1) / (np.float32(1) + out_F[f])


@compiled(FUSED)
def apply_gate(gate_NF: NDArray[np.float32], up_NF: NDArray[np.float32]) -> None:
    """Multiply `up_NF` by silu(gate) (arXiv 2002.05202)."""
    width = gate_NF.shape[1]
    powers_F = np.empty(width, np.int32)
    share_F = np.empty(width, np.float32)
    for n in range(len(gate_NF)):
        sigmoid(gate_NF[n], share_F, powers_F)
        for f in range(width):
            up_NF[n, f] *= gate_NF[n, f] * share_F[f]


@compiled(FUSED)
def rotate(
    x_D: NDArray[np.float32],
    cos_D: NDArray[np.float32],
    sin_D: NDArray[np.float32],
    factor: np.float32,
    out_D: NDArray[np.float32],
) -> None:
    """Set `out_D` to a head's query or key with rotary position embedding (arXiv 2104.09864), in
    Llama's half-split layout, multiplied by `factor`."""
    half = len(x_D) // 2
    # One array written in each loop: with two, the compiler does not vectorise it.
    for d in range(half):
        out_D[d] = x_D[d] * factor * cos_D[d] - x_D[half + d] * factor * sin_D[d]
    for d in range(half):
        out_D[half + d] = x_D[half + d] * factor * cos_D[d] + x_D[d] * factor * sin_D[d]


@compiled(FUSED)
def rotate_heads(
    x_NHD: NDArray[np.float32],
    cos_ND: NDArray[np.float32],
    sin_ND: NDArray[np.float32],
    out_NHD: NDArray[np.float32],
) -> None:
    """Set `out_NHD` to all heads of `x_NHD`, rotated by the angles of their token."""
    for n in range(len(x_NHD)):
        for head in range(x_NHD.shape[1]):
            rotate(x_NHD[n, head], cos_ND[n], sin_ND[n], np.float32(1), out_NHD[n, head])
