"""Attention of single tokens over cached keys on CPU.

torch's attention takes the keys of all rows padded to one length, at least four queries a key head,
and rounds by the shape of the call. Here every token reads its own keys once, and each of its
numbers is computed in an order that depends on nothing but the number of its keys.

Legend: N new tokens, B those with a query, H query heads, K key heads, G = H / K, D head width, S
cache slots, T keys of a slot, P = T / `BLOCK`, L = `BLOCK`, W keys that are written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agentrl_components.engines.torch_engine.kv_cache import BLOCK
from agentrl_components.model.kernels.compiled import FUSED, Floats, Integers, compiled
from agentrl_components.model.kernels.layers import rotate
from agentrl_components.model.kernels.products import multiply
from agentrl_components.model.kernels.softmax import softmax, whole_vectors


class Tokens(NamedTuple):
    """The new tokens of a pass, as in `Batch`."""

    positions_N: Integers
    slots_N: Integers
    written_W: Integers
    """Tokens whose keys are written..."""
    slots_W: Integers
    """...and the slot of each."""
    cos_ND: Floats
    """Cosines [N, D / 2] of the position embedding..."""
    sin_ND: Floats
    """...and sines."""


class Cached(NamedTuple):
    """Keys and values of a layer."""

    k_SKPDL: Floats
    """Keys of a block are columns, so that the scores of many are computed at once."""
    v_SKTD: Floats


@compiled(FUSED)
def write(k_NKD: Floats, v_NKD: Floats, tokens: Tokens, cached: Cached) -> None:
    """Write the rotated keys and the values of the new tokens to the cache."""
    k_D = np.empty(k_NKD.shape[2], np.float32)
    for w in range(len(tokens.written_W)):
        n, slot = tokens.written_W[w], tokens.slots_W[w]
        at, turned = tokens.positions_N[n], np.float32(1)
        for head in range(k_NKD.shape[1]):
            rotate(k_NKD[n, head], tokens.cos_ND[n], tokens.sin_ND[n], turned, k_D)
            for d in range(len(k_D)):
                cached.k_SKPDL[slot, head, at // BLOCK, d, at % BLOCK] = k_D[d]
            for d in range(len(k_D)):
                cached.v_SKTD[slot, head, at, d] = v_NKD[n, head, d]


@compiled(FUSED)
def attend(
    q_BHD: Floats, tokens_B: Integers, tokens: Tokens, cached: Cached, out_BHD: Floats
) -> None:
    """Set the first rows of `out_BHD` to softmax(q k / sqrt(D)) v, where query b is that of token
    `tokens_B[b]`, which attends to the keys of its slot up to its own position."""
    kv_heads, width = cached.v_SKTD.shape[1], cached.v_SKTD.shape[3]
    group = q_BHD.shape[1] // kv_heads
    scale = np.float32(1 / np.sqrt(width))
    most = whole_vectors(cached.v_SKTD.shape[2])
    scores_GT = np.empty((group, most), np.float32)
    powers_T = np.empty(most, np.int32)
    q_GD = np.empty((group, width), np.float32)
    for b in range(len(tokens_B)):
        n = tokens_B[b]
        slot, count = tokens.slots_N[n], tokens.positions_N[n] + 1
        for head in range(kv_heads):
            k_PDL, v_TD = cached.k_SKPDL[slot, head], cached.v_SKTD[slot, head]
            out_GD = out_BHD[b, head * group : (head + 1) * group, :width]
            for g in range(group):
                q_D = q_BHD[b, head * group + g]
                rotate(q_D, tokens.cos_ND[n], tokens.sin_ND[n], scale, q_GD[g])
            # Row by row: whole rows of a block are read, and stay in the processor's first cache.
            for first in range(0, count, BLOCK):
                # Scores after the last key are of undefined numbers, and nothing reads them.
                last = min(first + BLOCK, whole_vectors(count))
                k_DL = k_PDL[first // BLOCK, :, : last - first]
                for g in range(group):
                    multiply(q_GD[g : g + 1, :width], k_DL, scores_GT[g : g + 1, first:last], False)
            for g in range(group):
                softmax(scores_GT[g], count, powers_T)
            for first in range(0, count, BLOCK):
                last = min(first + BLOCK, count)
                v_LD = v_TD[first:last, :width]
                for g in range(group):
                    multiply(scores_GT[g : g + 1, first:last], v_LD, out_GD[g : g + 1], first > 0)
