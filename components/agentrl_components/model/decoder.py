"""Decoder of the Llama family on packed tokens, for sampling and training.

The attention over keys is an argument (`Attend`), since sampling reads keys from a cache and
training from the packed tokens. What a layer computes before and after it are functions of their
own, which torch can compile. Parameter names are those of transformers, so state dicts are
exchanged without conversion. `shape.FAMILIES` lists the supported models.

Legend: N tokens packed in a row, S tokens whose hidden states are asked for, E hidden width, H
query heads, K key heads, D head width, P pairs of its elements, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentrl_components.model.architecture import Architecture
from agentrl_components.model.causal_model import Attend, CausalModel
from agentrl_components.model.compilation import chosen, selectively
from agentrl_components.model.layer_functions import gated, rms_norm, rotate


class Norm(nn.Module):
    """Root mean square layer normalisation (arXiv 1910.07467)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


class Attention(nn.Module):
    """Grouped-query attention (arXiv 2305.13245) with rotary position embedding."""

    def __init__(self, shape: Architecture, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.width = width = shape.head_width
        self.q_proj = nn.Linear(shape.hidden, shape.heads * width, bias=shape.qkv_bias)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * width, bias=shape.qkv_bias)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * width, bias=shape.qkv_bias)
        self.o_proj = nn.Linear(shape.heads * width, shape.hidden, bias=shape.out_bias)
        self.q_norm = Norm(width, shape.eps) if shape.normed else nn.Identity()
        self.k_norm = Norm(width, shape.eps) if shape.normed else nn.Identity()

    def project(self, x_NE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [N, H, D], keys [N, K, D] and values [N, K, D], before `place`."""
        q_NHD = self.q_proj(x_NE).view(-1, self.heads, self.width)
        k_NKD = self.k_proj(x_NE).view(-1, self.kv_heads, self.width)
        return q_NHD, k_NKD, self.v_proj(x_NE).view(-1, self.kv_heads, self.width)

    def place(
        self, q_NHD: Tensor, k_NKD: Tensor, cos_NP: Tensor, sin_NP: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys, normalised and with their positions."""
        return (
            rotate(self.q_norm(q_NHD), cos_NP, sin_NP),
            rotate(self.k_norm(k_NKD), cos_NP, sin_NP),
        )

    def place_fused(
        self, q_NHD: Tensor, k_NKD: Tensor, cos_NP: Tensor, sin_NP: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As `place`, on a GPU, in one kernel for each."""
        from agentrl_components.model.triton_kernels.heads import rotate_heads  # with GPUs only

        def placed(x_NHD: Tensor, norm: nn.Module) -> Tensor:
            weight, eps = (norm.weight, norm.eps) if isinstance(norm, Norm) else (None, 0.0)
            return rotate_heads(x_NHD, weight, eps, cos_NP, sin_NP)

        return placed(q_NHD, self.q_norm), placed(k_NKD, self.k_norm)


class FeedForward(nn.Module):
    """SwiGLU feed-forward block (arXiv 2002.05202)."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        bias = shape.mlp_bias
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=bias)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=bias)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=bias)

    def forward(self, x_NE: Tensor) -> Tensor:
        out: Tensor = self.down_proj(gated(self.gate_proj(x_NE), self.up_proj(x_NE)))
        return out


class Layer(nn.Module):
    """A pre-norm transformer block."""

    compiled = False
    """Whether torch.compile computes what is not attention."""

    def __init__(self, shape: Architecture, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(shape, layer)
        self.mlp = FeedForward(shape)
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps)

    def forward(
        self,
        x_NE: Tensor,
        cos_NP: Tensor,
        sin_NP: Tensor,
        attend: Attend,
        rows_S: Tensor | None = None,
        selective: bool = False,
    ) -> Tensor:
        """The layer's output for all tokens [N, E], or for those with index `rows_S` [S, E].
        `selective`: as `CausalModel.selective`."""
        x_SE = x_NE if rows_S is None else x_NE.index_select(0, rows_S)
        if selective:
            q_NHD, k_NKD, v_NKD = chosen(Layer._project_selectively, compiled=True)(self, x_NE)
            placed = (q_NHD, k_NKD, v_NKD, cos_NP, sin_NP, attend, rows_S)
            attended_SHD = selectively(self._attended, *placed)
            return chosen(Layer._finish_selectively, compiled=True)(self, x_SE, attended_SHD)
        if self.compiled and x_NE.is_cuda:
            q_NHD, k_NKD, v_NKD = chosen(Layer._project, compiled=True)(self, x_NE)
            attended_SHD = self._attended(q_NHD, k_NKD, v_NKD, cos_NP, sin_NP, attend, rows_S)
        else:
            prepare = chosen(Layer._prepare, compiled=self.compiled)
            q_NHD, k_NKD, v_NKD = prepare(self, x_NE, cos_NP, sin_NP)
            attended_SHD = attend(self.self_attn.layer, q_NHD, k_NKD, v_NKD, rows_S)
        return chosen(Layer._finish, compiled=self.compiled)(self, x_SE, attended_SHD)

    def _project(self, x_NE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys before they are placed, and values."""
        return self.self_attn.project(self.input_layernorm(x_NE))

    def _project_selectively(self, x_NE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return selectively(Layer._project, self, x_NE)

    def _attended(
        self,
        q_NHD: Tensor,
        k_NKD: Tensor,
        v_NKD: Tensor,
        cos_NP: Tensor,
        sin_NP: Tensor,
        attend: Attend,
        rows_S: Tensor | None,
    ) -> Tensor:
        """The attention's output, from queries and keys before they are placed."""
        attention = self.self_attn
        place = attention.place_fused if q_NHD.is_cuda else attention.place
        q_NHD, k_NKD = place(q_NHD, k_NKD, cos_NP, sin_NP)
        return attend(attention.layer, q_NHD, k_NKD, v_NKD, rows_S)

    def _prepare(
        self, x_NE: Tensor, cos_NP: Tensor, sin_NP: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the attention takes."""
        q_NHD, k_NKD, v_NKD = self._project(x_NE)
        return *self.self_attn.place(q_NHD, k_NKD, cos_NP, sin_NP), v_NKD

    def _finish(self, x_NE: Tensor, attended_NHD: Tensor) -> Tensor:
        """The layer's output, from its input and the output of the attention."""
        x_NE = x_NE + self.self_attn.o_proj(attended_NHD.flatten(1))
        out: Tensor = x_NE + self.mlp(self.post_attention_layernorm(x_NE))
        return out

    def _finish_selectively(self, x_NE: Tensor, attended_NHD: Tensor) -> Tensor:
        return selectively(Layer._finish, self, x_NE, attended_NHD)


class Body(nn.Module):
    """Token embedding, blocks and final normalisation."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        # Passing a weight skips nn.Embedding's initialisation, which on the meta device imports
        # torch's compiler: four seconds in every process.
        weight_VE = torch.empty(shape.vocabulary, shape.hidden)
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden, _weight=weight_VE)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)


class Decoder(CausalModel):
    """Implements `CausalModel` for the families in `shape.FAMILIES`."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        if not shape.tied:
            self.lm_head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.register_buffer(
            "frequencies",
            torch.tensor(shape.rope.frequencies(shape.head_width)),
            persistent=False,
        )

    def forward(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, rows_S: Tensor | None = None
    ) -> Tensor:
        """As `CausalModel.forward`. Of tokens that are not asked for, the last layer computes keys
        and values only."""
        x_NE = self.model.embed_tokens(ids_N)
        cos_NP, sin_NP = (one.to(x_NE.dtype) for one in self.rotations(positions_N))
        last = len(self.model.layers) - 1
        for i, layer in enumerate(self.model.layers):
            inputs = (x_NE, cos_NP, sin_NP, attend, rows_S if i == last else None)
            if not torch.is_grad_enabled():
                x_NE = layer(*inputs)
            elif i < self.recomputed:
                x_NE = checkpoint(layer, *inputs, use_reentrant=False)
            else:
                x_NE = layer(*inputs, selective=self.selective)
        out_SE: Tensor = self.model.norm(x_NE)
        return out_SE

    def rotations(self, positions_N: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [N, P] of the rotary position embedding, in float32."""
        angles_NP = positions_N[:, None].float() * self.get_buffer("frequencies")[None, :]
        return angles_NP.cos(), angles_NP.sin()

    def logits(self, x_NE: Tensor) -> Tensor:
        """Logits [N, V] of hidden states."""
        weight = self.model.embed_tokens.weight if self.shape.tied else self.lm_head.weight
        return F.linear(x_NE, weight)

    def blocks(self) -> Iterable[nn.Module]:
        return self.model.layers

    def compile_parts(self) -> None:
        self.compiled = True
        for layer in self.model.layers:
            assert isinstance(layer, Layer)
            layer.compiled = True

    def allocate(self, device: torch.device) -> None:
        self.to_empty(device=device)
        self.reset_frequencies(device)

    def reset_frequencies(self, device: torch.device) -> None:
        """Set the frequencies of the position embedding, which no file holds. They stay in float32:
        a position times a bfloat16 frequency would be off by whole radians."""
        frequencies_D = torch.tensor(
            self.shape.rope.frequencies(self.shape.head_width), device=device
        )
        self.register_buffer("frequencies", frequencies_D, persistent=False)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw random weights: normal with standard deviation 1 / sqrt(inputs), and layers that
        write to the residual stream divided by sqrt(2 x layers).

        With GPT-2's fixed 0.02, attention of small models stays nearly uniform for hundreds of
        steps, and heads that match the goal with observations form late or never."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
                continue
            std = parameter.shape[-1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= (2 * len(self.model.layers)) ** 0.5
            parameter.normal_(0.0, std, generator=generator)
