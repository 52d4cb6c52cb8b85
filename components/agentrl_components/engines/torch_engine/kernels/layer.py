"""A decoder layer over the tokens of a cache, for float32 on CPU.

Tokens pass through a layer in blocks, whose intermediate results stay in the processor's second
cache. Every number of a token is computed in an order that depends on nothing but the token, its
keys and their number.

Legend: N packed new tokens, B those whose output is computed, M tokens of a block, E hidden width,
F feed-forward width, H query heads, K key heads, D head width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agentrl_components.engines.torch_engine.kernels.attention import (
    Cached,
    Tokens,
    attend,
    write,
)
from agentrl_components.engines.torch_engine.kernels.linear import (
    Panels,
    outputs,
    project,
)
from agentrl_components.model.kernels.compiled import FUSED, Floats, Integers, compiled
from agentrl_components.model.kernels.layers import apply_gate, normalise
from agentrl_components.model.kernels.products import ROWS

BLOCK = 64
"""Tokens of a block."""


class LayerWeights(NamedTuple):
    """The parameters of a layer."""

    input_norm_E: Floats
    q: Panels
    k: Panels
    v: Panels
    q_norm_D: Floats
    """Empty: the family does not normalise heads."""
    k_norm_D: Floats
    out: Panels
    feed_norm_E: Floats
    gate: Panels
    up: Panels
    down: Panels
    eps: np.float32


@compiled(FUSED)
def steps(rows: int) -> int:
    """Rows of products, which are computed by `ROWS`. Those after `rows` are not used."""
    return (rows + ROWS - 1) // ROWS * ROWS


@compiled(FUSED)
def copy_heads(wide_MF: Floats, norm_D: Floats, eps: np.float32, out_MHD: Floats) -> None:
    """Set `out_MHD` to the heads of a projection, normalised if there are weights for it."""
    for m in range(len(out_MHD)):
        for head in range(out_MHD.shape[1]):
            for d in range(out_MHD.shape[2]):
                out_MHD[m, head, d] = wide_MF[m, head * out_MHD.shape[2] + d]
    if len(norm_D):
        heads_XD = out_MHD.reshape(-1, out_MHD.shape[2])
        normalise(heads_XD, norm_D, eps, heads_XD)


@compiled(FUSED)
def add_rows(wide_MF: Floats, x_ME: Floats) -> None:
    """Add a projection to the first rows of `x_ME`."""
    for m in range(len(x_ME)):
        for e in range(x_ME.shape[1]):
            x_ME[m, e] += wide_MF[m, e]


@compiled(FUSED)
def cache_keys(x_NE: Floats, weights: LayerWeights, tokens: Tokens, cached: Cached) -> None:
    """Write keys and values of all new tokens to the cache."""
    kv_heads, width = cached.v_SKTD.shape[1], cached.v_SKTD.shape[3]
    k_NKD = np.empty((len(x_NE), kv_heads, width), np.float32)
    v_NKD = np.empty_like(k_NKD)
    h_ME = np.zeros((BLOCK, x_NE.shape[1]), np.float32)
    wide_MF = np.empty((BLOCK, outputs(weights.k)), np.float32)
    nothing = weights.k_norm_D[:0]
    for first in range(0, len(x_NE), BLOCK):
        last = min(first + BLOCK, len(x_NE))
        rows = steps(last - first)
        normalise(x_NE[first:last], weights.input_norm_E, weights.eps, h_ME)
        project(h_ME[:rows], weights.k, wide_MF)
        copy_heads(wide_MF, weights.k_norm_D, weights.eps, k_NKD[first:last])
        project(h_ME[:rows], weights.v, wide_MF)
        copy_heads(wide_MF, nothing, weights.eps, v_NKD[first:last])
    write(k_NKD, v_NKD, tokens, cached)


@compiled(FUSED)
def run_layer(
    x_NE: Floats,
    tokens_B: Integers,
    heads: int,
    weights: LayerWeights,
    tokens: Tokens,
    cached: Cached,
    out_BE: Floats,
) -> None:
    """Write keys and values of all tokens to the cache, and set `out_BE`, which may be `x_NE`, to
    the layer's output for `tokens_B`."""
    cache_keys(x_NE, weights, tokens, cached)
    width, hidden = cached.v_SKTD.shape[3], x_NE.shape[1]
    x_ME, h_ME = np.empty((BLOCK, hidden), np.float32), np.zeros((BLOCK, hidden), np.float32)
    q_MF = np.empty((BLOCK, outputs(weights.q)), np.float32)
    q_MHD = np.empty((BLOCK, heads, width), np.float32)
    attended_MHD = np.zeros((BLOCK, heads, width), np.float32)
    wide_ME = np.empty((BLOCK, outputs(weights.out)), np.float32)
    gate_MF = np.empty((BLOCK, outputs(weights.gate)), np.float32)
    up_MF = np.empty((BLOCK, outputs(weights.gate)), np.float32)
    for first in range(0, len(tokens_B), BLOCK):
        some = min(BLOCK, len(tokens_B) - first)
        of_M, rows = tokens_B[first : first + some], steps(some)
        for m in range(some):
            for e in range(hidden):
                x_ME[m, e] = x_NE[of_M[m], e]
        normalise(x_ME[:some], weights.input_norm_E, weights.eps, h_ME)
        project(h_ME[:rows], weights.q, q_MF)
        copy_heads(q_MF, weights.q_norm_D, weights.eps, q_MHD[:some])
        attend(q_MHD, of_M, tokens, cached, attended_MHD)
        project(attended_MHD.reshape(BLOCK, -1)[:rows], weights.out, wide_ME)
        add_rows(wide_ME, x_ME[:some])
        normalise(x_ME[:some], weights.feed_norm_E, weights.eps, h_ME)
        project(h_ME[:rows], weights.gate, gate_MF)
        project(h_ME[:rows], weights.up, up_MF)
        apply_gate(gate_MF[:rows], up_MF[:rows])
        project(up_MF[:rows], weights.down, wide_ME)
        add_rows(wide_ME, x_ME[:some])
        for m in range(some):
            for e in range(hidden):
                out_BE[first + m, e] = x_ME[m, e]


@compiled(FUSED)
def run_head(x_BE: Floats, norm_E: Floats, eps: np.float32, head: Panels, out_BV: Floats) -> None:
    """Set `out_BV` to the logits of the last layer's outputs."""
    h_ME = np.zeros((BLOCK, x_BE.shape[1]), np.float32)
    wide_MV = np.empty((BLOCK, outputs(head)), np.float32)
    for first in range(0, len(x_BE), BLOCK):
        some = min(BLOCK, len(x_BE) - first)
        normalise(x_BE[first : first + some], norm_E, eps, h_ME)
        project(h_ME[: steps(some)], head, wide_MV)
        for m in range(some):
            for v in range(out_BV.shape[1]):
                out_BV[first + m, v] = wide_MV[m, v]
