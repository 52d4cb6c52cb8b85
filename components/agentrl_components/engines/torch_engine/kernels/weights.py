"""The decoder's parameters in the form that compiled passes read."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.engines.torch_engine.kernels.layer import LayerWeights
from agentrl_components.engines.torch_engine.kernels.linear import empty, pack
from agentrl_components.model.architecture import Architecture
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.lora import merged_state_dict

LINEAR = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
NORMS = {
    "input_norm_E": "input_layernorm",
    "q_norm_D": "self_attn.q_norm",
    "k_norm_D": "self_attn.k_norm",
    "feed_norm_E": "post_attention_layernorm",
}


class PackedWeights:
    """A copy of a decoder's parameters in float32, with adapters merged into the weights of their
    layers."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        shape = decoder.shape
        self.layers = [_layer(shape) for _ in range(shape.layers)]
        self.norm_E = np.zeros(shape.hidden, np.float32)
        self.head = empty(shape.hidden, shape.vocabulary)

    @torch.no_grad()
    def copy(self) -> None:
        """Copy the decoder's parameters as they are now."""
        held = merged_state_dict(self._decoder)
        for number, weights in enumerate(self.layers):
            prefix = f"model.layers.{number}."
            for field, name in LINEAR.items():
                parameters = (held[f"{prefix}{name}.weight"], held.get(f"{prefix}{name}.bias"))
                pack(*parameters, getattr(weights, field))
            for field, name in NORMS.items():
                _copy(held.get(f"{prefix}{name}.weight"), getattr(weights, field))
        _copy(held["model.norm.weight"], self.norm_E)
        tied = self._decoder.shape.tied
        pack(held["model.embed_tokens.weight" if tied else "lm_head.weight"], None, self.head)


def _layer(shape: Architecture) -> LayerWeights:
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    normed = shape.head_width if shape.normed else 0
    return LayerWeights(
        input_norm_E=np.zeros(shape.hidden, np.float32),
        q=empty(shape.hidden, queries),
        k=empty(shape.hidden, keys),
        v=empty(shape.hidden, keys),
        q_norm_D=np.zeros(normed, np.float32),
        k_norm_D=np.zeros(normed, np.float32),
        out=empty(queries, shape.hidden),
        feed_norm_E=np.zeros(shape.hidden, np.float32),
        gate=empty(shape.hidden, shape.intermediate),
        up=empty(shape.hidden, shape.intermediate),
        down=empty(shape.intermediate, shape.hidden),
        eps=np.float32(shape.eps),
    )


def _copy(weight: Tensor | None, into: NDArray[np.float32]) -> None:
    if weight is not None:
        torch.from_numpy(into).copy_(weight)
