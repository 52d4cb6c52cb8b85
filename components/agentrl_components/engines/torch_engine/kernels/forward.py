"""The built-in decoder's forward pass on CPU, with compiled functions for all but the products.

It computes what `Decoder.forward` does, without gradients, to the rounding of float32
(tests/components/engines/torch_engine/kernels/test_forward.py).

Legend: N packed new tokens, R those that are not padding, B rows, S cache slots, T tokens of a
slot, E hidden width, F feed-forward width, H query heads, K key heads, D head width, W keys that
are written.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentrl_components.engines.torch_engine.batch import Batch
from agentrl_components.engines.torch_engine.kernels.attention import attend, write
from agentrl_components.engines.torch_engine.kv_cache import SlotCache
from agentrl_components.model.decoder import Attention, Decoder, FeedForward, Layer, Norm
from agentrl_components.model.kernels.layers import apply_gate, normalise

Floats = NDArray[np.float32]
Angles = tuple[Floats, Floats]
"""Cosines and sines [N, D / 2] of the position embedding."""


class KernelForward:
    """Forward passes of a decoder over the tokens of a cache. Linear layers are the model's own, so
    adapters take part; between them, numbers are float32."""

    def __init__(self, decoder: Decoder, cache: SlotCache) -> None:
        self._decoder, self._cache = decoder, cache
        self._dtype = decoder.model.embed_tokens.weight.dtype

    def __call__(self, ids_N: Tensor, batch: Batch) -> Tensor:
        """Final hidden states [B, E] of the last token of each row, with padding."""
        model = self._decoder.model
        cos_ND, sin_ND = self._decoder.rotations(torch.from_numpy(batch.positions_N))
        angles = (cos_ND.numpy(), sin_ND.numpy())
        x_NE = model.embed_tokens(ids_N).float()
        for layer in model.layers:
            assert isinstance(layer, Layer)
            h_NE = self._normalised(layer.input_layernorm, x_NE)
            self._cache_keys(layer.self_attn, h_NE, batch, angles)
            tokens = np.arange(batch.real)
            if layer is model.layers[-1] and batch.real > batch.rows:
                # No later layer reads the other tokens.
                last_B = torch.from_numpy(batch.last_B)
                x_NE, h_NE = x_NE.index_select(0, last_B), h_NE.index_select(0, last_B)
                tokens = batch.last_B[: batch.rows]
            attended_NE = self._attended(layer.self_attn, h_NE, tokens, batch, angles)
            x_NE += layer.self_attn.o_proj(attended_NE)
            h_NE = self._normalised(layer.post_attention_layernorm, x_NE)
            x_NE += layer.mlp.down_proj(self._gated(layer.mlp, h_NE))
        return self._normalised(model.norm, x_NE)

    def _cache_keys(self, attention: Attention, h_NE: Tensor, batch: Batch, angles: Angles) -> None:
        """Write keys and values of all tokens to the cache."""
        k_NKD = self._heads(attention.k_proj, attention.k_norm, h_NE)
        v_NKD = self._heads(attention.v_proj, None, h_NE)
        places = (batch.tokens_W, batch.slots_W, batch.positions_N)
        write(k_NKD, v_NKD, *angles, *places, *self._cached(attention))

    def _attended(
        self,
        attention: Attention,
        h_BE: Tensor,
        tokens_B: NDArray[np.int64],
        batch: Batch,
        angles: Angles,
    ) -> Tensor:
        """Output [B, H x D] of the attention for `tokens_B`, whose inputs are `h_BE`, and 0 for
        padding after them."""
        q_BHD = self._heads(attention.q_proj, attention.q_norm, h_BE)
        out_BHD = np.zeros_like(q_BHD)
        places = (tokens_B, batch.slots_R, batch.positions_N)
        attend(q_BHD, *angles, *places, *self._cached(attention), out_BHD)
        return torch.from_numpy(out_BHD).flatten(1).to(self._dtype)

    def _cached(self, attention: Attention) -> tuple[Floats, Floats]:
        """Keys and values of a layer [S, K, T, D]."""
        return self._cache.k[attention.layer].numpy(), self._cache.v[attention.layer].numpy()

    def _heads(self, projection: nn.Module, norm: nn.Module | None, h_NE: Tensor) -> Floats:
        """Queries [N, H, D], or keys or values [N, K, D]. `norm`: that of the heads; the identity
        if the family has none."""
        out_NE: Tensor = projection(h_NE)
        out_ND = out_NE.float().view(-1, self._decoder.shape.head_width).numpy()
        if isinstance(norm, Norm):
            self._normalise(norm, out_ND, out_ND)
        return out_ND.reshape(len(h_NE), -1, out_ND.shape[1])

    def _gated(self, feed_forward: FeedForward, h_NE: Tensor) -> Tensor:
        """What the last product of a feed-forward block takes [N, F]."""
        gate_NF: Tensor = feed_forward.gate_proj(h_NE).float()
        up_NF: Tensor = feed_forward.up_proj(h_NE).float()
        apply_gate(gate_NF.numpy(), up_NF.numpy())
        return up_NF.to(self._dtype)

    def _normalised(self, norm: Norm, x_NE: Tensor) -> Tensor:
        out_NE = torch.empty_like(x_NE)
        self._normalise(norm, x_NE.numpy(), out_NE.numpy())
        return out_NE.to(self._dtype)

    def _normalise(self, norm: Norm, x_NE: Floats, out_NE: Floats) -> None:
        normalise(x_NE, norm.weight.float().numpy(), np.float32(norm.eps), out_NE)
