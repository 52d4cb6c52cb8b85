"""Gradients of what a decoder layer computes beside attention and matrix products, for float32 on
CPU.

A gradient with respect to a number is called d and its name. The gradient of a rotation is the
rotation by the opposite angle, so `layers.rotate_heads` computes it.

Legend: N tokens, E hidden width, F feed-forward width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.layers import dot, sigmoid


@compiled(FUSED)
def normalise_gradients(
    dout_NE: NDArray[np.float32],
    x_NE: NDArray[np.float32],
    weight_E: NDArray[np.float32],
    eps: np.float32,
    dx_NE: NDArray[np.float32],
    dweight_E: NDArray[np.float32],
) -> None:
    """Set `dx_NE`, and add to `dweight_E`, the gradients of `layers.normalise`."""
    width = x_NE.shape[1]
    weighted_E = np.empty(width, np.float32)
    for n in range(len(x_NE)):
        mean = dot(x_NE[n], x_NE[n]) / np.float32(width)
        factor = np.float32(1) / np.sqrt(mean + eps)
        for e in range(width):
            weighted_E[e] = dout_NE[n, e] * weight_E[e]
        shrink = dot(weighted_E, x_NE[n]) * factor * factor / np.float32(width)
        for e in range(width):
            dx_NE[n, e] = (weighted_E[e] - x_NE[n, e] * shrink) * factor
        for e in range(width):
            dweight_E[e] += dout_NE[n, e] * x_NE[n, e] * factor


@compiled(FUSED)
def gate_gradients(
    dout_NF: NDArray[np.float32],
    gate_NF: NDArray[np.float32],
    up_NF: NDArray[np.float32],
    dgate_NF: NDArray[np.float32],
    dup_NF: NDArray[np.float32],
) -> None:
    """Set `dgate_NF` and `dup_NF` to the gradients of silu(gate) up."""
    width = gate_NF.shape[1]
    powers_F = np.empty(width, np.int32)
    share_F = np.empty(width, np.float32)
    for n in range(len(gate_NF)):
        sigmoid(gate_NF[n], share_F, powers_F)
        # One array written in each loop: with two, the compiler does not vectorise it.
        for f in range(width):
            dup_NF[n, f] = dout_NF[n, f] * gate_NF[n, f] * share_F[f]
        for f in range(width):
            opened = gate_NF[n, f] * share_F[f]
            slope = share_F[f] + opened - opened * share_F[f]
            dgate_NF[n, f] = dout_NF[n, f] * up_NF[n, f] * slope
