"""Attention of single tokens over cached keys on CPU.

torch's attention takes the keys of all rows padded to one length, at least four queries a key head,
and rounds by the shape of the call. Here every token reads its own keys once, and each of its
numbers is computed in an order that depends on nothing but the number of its keys.

Legend: N tokens, R those that are not padding, B those with a query, H query heads, K key heads, G
= H / K, D head width, S cache slots, T keys, W keys that are written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.layers import dot, exponentiate, rotate

LANES = 16
"""A sum over keys is kept in this many parts, which fill the processor's vector registers."""
BLOCK = 32
"""Keys that all query heads of a key head use before the next ones are read: they stay in the
processor's first cache."""


@compiled(FUSED)
def softmax(scores_T: NDArray[np.float32], count: int, powers_T: NDArray[np.int32]) -> None:
    """Replace the first `count` scores by their softmax. Those after them, up to a multiple of
    `LANES`, are overwritten; `powers_T` is memory for intermediate results."""
    end = (count + LANES - 1) // LANES * LANES
    highest = scores_T[0]
    for t in range(count):
        highest = scores_T[t] if scores_T[t] > highest else highest
    for t in range(count):
        scores_T[t] -= highest
    for t in range(count, end):
        scores_T[t] = 0
    exponentiate(scores_T[:end], powers_T)
    for t in range(count, end):
        scores_T[t] = 0
    lanes = np.zeros(LANES, np.float32)
    for first in range(0, end, LANES):
        for lane in range(LANES):
            lanes[lane] += scores_T[first + lane]
    total = np.float32(0)
    for lane in range(LANES):
        total += lanes[lane]
    share = np.float32(1) / total
    for t in range(count):
        scores_T[t] *= share


@compiled(FUSED)
def add_values(
    weights_T: NDArray[np.float32], v_TD: NDArray[np.float32], out_D: NDArray[np.float32]
) -> None:
    """Add the weighted sum of values to `out_D`, in the order of the keys. Eight at a time, so that
    the sum is read and written less often."""
    t = 0
    while t + 8 <= len(weights_T):
        a, b, c, d = weights_T[t], weights_T[t + 1], weights_T[t + 2], weights_T[t + 3]
        e, f, g, h = weights_T[t + 4], weights_T[t + 5], weights_T[t + 6], weights_T[t + 7]
        for i in range(len(out_D)):
            near = out_D[i] + a * v_TD[t, i] + b * v_TD[t + 1, i]
            near = near + c * v_TD[t + 2, i] + d * v_TD[t + 3, i]
            near = near + e * v_TD[t + 4, i] + f * v_TD[t + 5, i]
            out_D[i] = near + g * v_TD[t + 6, i] + h * v_TD[t + 7, i]
        t += 8
    while t < len(weights_T):
        weight = weights_T[t]
        for i in range(len(out_D)):
            out_D[i] += weight * v_TD[t, i]
        t += 1


@compiled(FUSED)
def write(
    k_NKD: NDArray[np.float32],
    v_NKD: NDArray[np.float32],
    cos_ND: NDArray[np.float32],
    sin_ND: NDArray[np.float32],
    tokens_W: NDArray[np.int64],
    slots_W: NDArray[np.int64],
    positions_N: NDArray[np.int64],
    k_SKTD: NDArray[np.float32],
    v_SKTD: NDArray[np.float32],
) -> None:
    """Write the rotated keys and the values of `tokens_W` to their positions in `slots_W`."""
    for w in range(len(tokens_W)):
        n, slot = tokens_W[w], slots_W[w]
        at = positions_N[n]
        for head in range(k_NKD.shape[1]):
            out_D = k_SKTD[slot, head, at]
            rotate(k_NKD[n, head], cos_ND[n], sin_ND[n], np.float32(1), out_D)
            for d in range(k_NKD.shape[2]):
                v_SKTD[slot, head, at, d] = v_NKD[n, head, d]


@compiled(FUSED)
def attend(
    q_BHD: NDArray[np.float32],
    cos_ND: NDArray[np.float32],
    sin_ND: NDArray[np.float32],
    tokens_B: NDArray[np.int64],
    slots_R: NDArray[np.int64],
    positions_N: NDArray[np.int64],
    k_SKTD: NDArray[np.float32],
    v_SKTD: NDArray[np.float32],
    out_BHD: NDArray[np.float32],
) -> None:
    """Add softmax(q k / sqrt(D)) v to `out_BHD`, where query b is that of token n = `tokens_B[b]`,
    which attends to the keys of slot `slots_R[n]` up to its own position. Queries after those of
    `tokens_B` are padding, for which nothing is added."""
    kv_heads, width = k_SKTD.shape[1], q_BHD.shape[2]
    group = q_BHD.shape[1] // kv_heads
    scale = np.float32(1 / np.sqrt(width))
    most = (positions_N.max() + LANES) // LANES * LANES
    scores_GT = np.empty((group, most), np.float32)
    powers_T = np.empty(most, np.int32)
    q_GD = np.empty((group, width), np.float32)
    for b in range(len(tokens_B)):
        n = tokens_B[b]
        count = positions_N[n] + 1
        for head in range(kv_heads):
            k_TD, v_TD = k_SKTD[slots_R[n], head], v_SKTD[slots_R[n], head]
            for g in range(group):
                rotate(q_BHD[b, head * group + g], cos_ND[n], sin_ND[n], scale, q_GD[g])
            for first in range(0, count, BLOCK):
                for g in range(group):
                    for t in range(first, min(first + BLOCK, count)):
                        scores_GT[g, t] = dot(q_GD[g], k_TD[t])
            for g in range(group):
                softmax(scores_GT[g], count, powers_T)
            for first in range(0, count, BLOCK):
                last = min(first + BLOCK, count)
                for g in range(group):
                    out_D = out_BHD[b, head * group + g]
                    add_values(scores_GT[g, first:last], v_TD[first:last], out_D)
