"""Causal attention within packed episodes and its gradients, for float32 on CPU.

Nothing is padded: the queries of an episode meet its own keys, up to the last one that a tile of
`TILE` queries may attend to. Scores are not kept for the gradients, only the logarithms of their
sums of exponentials (FlashAttention, arXiv 2205.14135). Every number is computed in an order that
depends on nothing but its own episode.

A gradient with respect to a number is called d and its name.

Legend: N packed tokens, S queries in the order of their tokens, B episodes, H query heads, K key
heads, D head width, I queries of a tile, T keys of an episode.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentrl_components.model.kernels.compiled import FUSED, Floats, Integers, compiled
from agentrl_components.model.kernels.layers import dot, exponentiate
from agentrl_components.model.kernels.products import multiply
from agentrl_components.model.kernels.softmax import softmax, whole_vectors

TILE = 32


@compiled(FUSED)
def transpose(x_TKD: Floats, head: int, out_DT: Floats) -> None:
    """Set `out_DT` to the transpose of a head, and to 0 in the columns after it."""
    for d in range(x_TKD.shape[2]):
        for t in range(len(x_TKD)):
            out_DT[d, t] = x_TKD[t, head, d]
        for t in range(len(x_TKD), out_DT.shape[1]):
            out_DT[d, t] = 0


@compiled(FUSED)
def attend_head(
    head: int,
    q_SHD: Floats,
    k_DT: Floats,
    v_TD: Floats,
    positions_S: Integers,
    out_SHD: Floats,
    log_sums_SH: Floats,
) -> None:
    """`attend_causally` for a head of an episode."""
    width, longest = k_DT.shape
    factor = np.float32(1 / np.sqrt(width))
    q_ID, weights_IT = np.empty((TILE, width), np.float32), np.empty((TILE, longest), np.float32)
    powers_T = np.empty(longest, np.int32)
    for s in range(0, len(q_SHD), TILE):
        end = min(s + TILE, len(q_SHD))
        some, seen = end - s, positions_S[end - 1] + 1
        keys = whole_vectors(seen)
        for i in range(some):
            for d in range(width):
                q_ID[i, d] = q_SHD[s + i, head, d] * factor
        multiply(q_ID[:some, :width], k_DT[:, :keys], weights_IT[:some, :keys], False)
        for i in range(some):
            count = positions_S[s + i] + 1
            log_sums_SH[s + i, head] = softmax(weights_IT[i], count, powers_T)
            for t in range(count, keys):
                weights_IT[i, t] = 0
        multiply(weights_IT[:some, :seen], v_TD[:seen], out_SHD[s:end, head], False)


@compiled(FUSED)
def attend_causally(
    q_SHD: Floats,
    k_NKD: Floats,
    v_NKD: Floats,
    bounds: tuple[Integers, Integers],
    positions_S: Integers,
    out_SHD: Floats,
    log_sums_SH: Floats,
) -> None:
    """Set `out_SHD` to softmax(q k / sqrt(D)) v, and `log_sums_SH` to the logarithms of the sums of
    exponentials.

    Args:
        bounds: index of each episode's first query, and the number of all, [B + 1]; and the same
            for keys.
        positions_S: position of each query in its episode.
    """
    queries_B1, keys_B1 = bounds
    group = q_SHD.shape[1] // k_NKD.shape[1]
    for b in range(len(keys_B1) - 1):
        s, last = queries_B1[b], queries_B1[b + 1]
        k_TKD, v_TKD = k_NKD[keys_B1[b] : keys_B1[b + 1]], v_NKD[keys_B1[b] : keys_B1[b + 1]]
        k_DT = np.empty((q_SHD.shape[2], whole_vectors(len(k_TKD))), np.float32)
        found = (positions_S[s:last], out_SHD[s:last], log_sums_SH[s:last])
        for head in range(q_SHD.shape[1]):
            if head % group == 0:
                transpose(k_TKD, head // group, k_DT)
            attend_head(head, q_SHD[s:last], k_DT, v_TKD[:, head // group], *found)


@compiled(FUSED)
def weigh(
    scores_T: Floats,
    dscores_T: Floats,
    count: int,
    log_sum: np.float32,
    shift: np.float32,
    powers_T: NDArray[np.int32],
) -> None:
    """Replace a query's first `count` scores by its weights, and the gradients of its weights,
    `dscores_T`, by those of the scores."""
    for t in range(count):
        scores_T[t] -= log_sum
    exponentiate(scores_T[:count], powers_T)
    for t in range(count):
        dscores_T[t] = scores_T[t] * (dscores_T[t] - shift)


@compiled(FUSED)
def head_gradients(
    head: int,
    dout_SHD: Floats,
    q_SHD: Floats,
    k_TD: Floats,
    transposed: tuple[Floats, Floats],
    found: tuple[Integers, Floats, Floats],
    gradients: tuple[Floats, Floats, Floats],
) -> None:
    """`attention_gradients` for a head of an episode: set `gradients` [S, H, D], and add to those
    [T, D] of keys and values. `transposed` are keys and values [D, T], and `found` positions,
    outputs and sums of `attend_causally`."""
    (k_DT, v_DT), (positions_S, out_SHD, log_sums_SH) = transposed, found
    dq_SHD, dk_TD, dv_TD = gradients
    width, longest = k_DT.shape
    factor = np.float32(1 / np.sqrt(width))
    q_ID, dq_ID = np.empty((TILE, width), np.float32), np.empty((TILE, width), np.float32)
    weights_IT = np.empty((TILE, longest), np.float32)
    dscores_IT = np.empty((TILE, longest), np.float32)
    powers_T = np.empty(longest, np.int32)
    for s in range(0, len(q_SHD), TILE):
        end = min(s + TILE, len(q_SHD))
        some, seen = end - s, positions_S[end - 1] + 1
        keys = whole_vectors(seen)
        dout_ID = dout_SHD[s:end, head]
        for i in range(some):
            for d in range(width):
                q_ID[i, d] = q_SHD[s + i, head, d] * factor
        multiply(q_ID[:some, :width], k_DT[:, :keys], weights_IT[:some, :keys], False)
        multiply(dout_ID, v_DT[:, :keys], dscores_IT[:some, :keys], False)
        for i in range(some):
            count, log_sum = positions_S[s + i] + 1, log_sums_SH[s + i, head]
            shift = dot(dout_SHD[s + i, head], out_SHD[s + i, head])
            weigh(weights_IT[i], dscores_IT[i], count, log_sum, shift, powers_T)
            for t in range(count, keys):
                weights_IT[i, t] = dscores_IT[i, t] = 0
        multiply(weights_IT[:some, :seen].T, dout_ID, dv_TD[:seen], True)
        multiply(dscores_IT[:some, :seen].T, q_ID[:some, :width], dk_TD[:seen], True)
        multiply(dscores_IT[:some, :seen], k_TD[:seen], dq_ID[:some, :width], False)
        for i in range(some):
            for d in range(width):
                dq_SHD[s + i, head, d] = dq_ID[i, d] * factor


@compiled(FUSED)
def attention_gradients(
    dout_SHD: Floats,
    saved: tuple[Floats, Floats, Floats],
    bounds: tuple[Integers, Integers],
    positions_S: Integers,
    out_SHD: Floats,
    log_sums_SH: Floats,
    gradients: tuple[Floats, Floats, Floats],
) -> None:
    """Set the first of `gradients`, and add to the others, the gradients of `attend_causally` with
    respect to `saved`, its `q_SHD`, `k_NKD` and `v_NKD`. The other arguments are its own."""
    (q_SHD, k_NKD, v_NKD), (dq_SHD, dk_NKD, dv_NKD) = saved, gradients
    queries_B1, keys_B1 = bounds
    group = q_SHD.shape[1] // k_NKD.shape[1]
    for b in range(len(keys_B1) - 1):
        s, last, k, end = queries_B1[b], queries_B1[b + 1], keys_B1[b], keys_B1[b + 1]
        k_DT = np.empty((q_SHD.shape[2], whole_vectors(end - k)), np.float32)
        v_DT = np.empty_like(k_DT)
        found = (positions_S[s:last], out_SHD[s:last], log_sums_SH[s:last])
        for head in range(q_SHD.shape[1]):
            of = head // group
            if head % group == 0:
                transpose(k_NKD[k:end], of, k_DT)
                transpose(v_NKD[k:end], of, v_DT)
            head_gradients(
                head,
                dout_SHD[s:last],
                q_SHD[s:last],
                k_NKD[k:end, of],
                (k_DT, v_DT),
                found,
                (dq_SHD[s:last], dk_NKD[k:end, of], dv_NKD[k:end, of]),
            )
