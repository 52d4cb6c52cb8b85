"""The built-in decoder's forward pass on CPU, by compiled functions.

It computes what `Decoder.forward` and `Decoder.logits` do, without gradients, to the rounding of
float32 (tests/components/engines/torch_engine/kernels/test_forward.py).

Legend: N packed new tokens, B rows, S cache slots, E hidden width, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from agentrl_components.engines.torch_engine.batch import Batch
from agentrl_components.engines.torch_engine.kernels.attention import Cached, Tokens
from agentrl_components.engines.torch_engine.kernels.layer import run_head, run_layer
from agentrl_components.engines.torch_engine.kernels.weights import PackedWeights
from agentrl_components.engines.torch_engine.kv_cache import SlotCache
from agentrl_components.model.decoder import Decoder


class KernelForward:
    """Forward passes of a decoder over the tokens of a cache, in float32, on one thread."""

    def __init__(self, decoder: Decoder, cache: SlotCache) -> None:
        self._decoder, self._cache = decoder, cache
        self._weights = PackedWeights(decoder)
        self._current = False

    def forget_weights(self) -> None:
        """Copy the decoder's parameters again before the next pass."""
        self._current = False

    def __call__(self, ids_N: Tensor, batch: Batch) -> Tensor:
        """Logits [B, V] after the last token of each row."""
        if not self._current:
            self._weights.copy()
            self._current = True
        shape, held = self._decoder.shape, self._weights
        x_NE = self._decoder.model.embed_tokens(ids_N).float().numpy()
        out_BE = np.empty((len(batch.last_B), shape.hidden), np.float32)
        cos_ND, sin_ND = self._decoder.rotations(torch.from_numpy(batch.positions_N))
        tokens = Tokens(
            positions_N=batch.positions_N,
            slots_N=batch.slots_N,
            written_W=batch.tokens_W,
            slots_W=batch.slots_W,
            cos_ND=cos_ND.numpy(),
            sin_ND=sin_ND.numpy(),
        )
        every_N = np.arange(len(x_NE))
        for number, weights in enumerate(held.layers):
            cached = Cached(self._cache.k_blocks(number).numpy(), self._cache.v[number].numpy())
            # No later layer reads the last one's output for other tokens.
            last = number + 1 == shape.layers
            wanted, out = (batch.last_B, out_BE) if last else (every_N, x_NE)
            run_layer(x_NE, wanted, shape.heads, weights, tokens, cached, out)
        logits_BV = np.empty((len(out_BE), shape.vocabulary), np.float32)
        run_head(out_BE, held.norm_E, np.float32(shape.eps), held.head, logits_BV)
        return torch.from_numpy(logits_BV)
