"""The compiled functions of a decoder layer as operations of torch, with their gradients.

Tensors are float32, on CPU.

Legend: N tokens, S tokens with a query, B episodes, E width of what is normalised, F feed-forward
width, H query heads, K key heads, D head width. `x` has further dimensions before E.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from agentrl_components.model.kernels.attention import attend_causally, attention_gradients
from agentrl_components.model.kernels.gradients import gate_gradients, normalise_gradients
from agentrl_components.model.kernels.layers import apply_gate, normalise, rotate_heads


class Normalise(torch.autograd.Function):
    """Root mean square normalisation of the last dimension, times a weight (arXiv 1910.07467)."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, weight_E: Tensor, eps: float) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x, weight_E)
        ctx.eps = eps  # type: ignore[attr-defined]
        out = torch.empty_like(x)
        normalise(_rows(x), _copied(weight_E), np.float32(eps), _rows(out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dout: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight_E = ctx.saved_tensors  # type: ignore[attr-defined]
        dx, dweight_E = torch.empty_like(x), torch.zeros_like(weight_E)
        normalise_gradients(
            _rows(dout.contiguous()),
            _rows(x),
            _copied(weight_E),
            np.float32(ctx.eps),  # type: ignore[attr-defined]
            _rows(dx),
            dweight_E.numpy(),
        )
        return dx, dweight_E, None


class Gate(torch.autograd.Function):
    """silu(gate) up [N, F], of which only the inputs are kept (arXiv 2002.05202)."""

    @staticmethod
    def forward(ctx: FunctionCtx, gate_NF: Tensor, up_NF: Tensor) -> Tensor:
        gate_NF, up_NF = gate_NF.contiguous(), up_NF.contiguous()
        ctx.save_for_backward(gate_NF, up_NF)
        out_NF = up_NF.clone()
        apply_gate(gate_NF.numpy(), out_NF.numpy())
        return out_NF

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dout_NF: Tensor) -> tuple[Tensor, Tensor]:
        gate_NF, up_NF = ctx.saved_tensors  # type: ignore[attr-defined]
        dgate_NF, dup_NF = torch.empty_like(gate_NF), torch.empty_like(up_NF)
        given = (dout_NF.contiguous(), gate_NF, up_NF, dgate_NF, dup_NF)
        gate_gradients(*(tensor.numpy() for tensor in given))
        return dgate_NF, dup_NF


class Rotate(torch.autograd.Function):
    """Rotary position embedding of all heads [N, H, D] (arXiv 2104.09864)."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NHD: Tensor, cos_ND: Tensor, sin_ND: Tensor) -> Tensor:
        ctx.save_for_backward(cos_ND, sin_ND)
        return _rotated(x_NHD, cos_ND, sin_ND)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dout_NHD: Tensor) -> tuple[Tensor, None, None]:
        cos_ND, sin_ND = ctx.saved_tensors  # type: ignore[attr-defined]
        return _rotated(dout_NHD, cos_ND, -sin_ND), None, None


class AttendCausally(torch.autograd.Function):
    """Causal attention within packed episodes: softmax(q k / sqrt(D)) v [S, H, D]."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        q_SHD: Tensor,
        k_NKD: Tensor,
        v_NKD: Tensor,
        bounds: tuple[Tensor, Tensor],
        positions_S: Tensor,
    ) -> Tensor:
        """`bounds`: index of each episode's first query, and the number of all, [B + 1]; and the
        same for keys. `positions_S`: position of each query in its episode, ascending in each."""
        inputs = (q_SHD.contiguous(), k_NKD.contiguous(), v_NKD.contiguous())
        places = (*bounds, positions_S)
        out_SHD = torch.empty(q_SHD.shape)
        log_sums_SH = torch.empty(q_SHD.shape[:2])
        q, k, v, queries, keys, positions, *found = _arrays(*inputs, *places, out_SHD, log_sums_SH)
        attend_causally(q, k, v, (queries, keys), positions, *found)
        ctx.save_for_backward(*inputs, *places, out_SHD, log_sums_SH)
        return out_SHD

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, dout: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        q, k, v, queries, keys, positions, out, log_sums = _arrays(*saved)
        dq_SHD = torch.empty_like(saved[0])
        dk_NKD, dv_NKD = torch.zeros_like(saved[1]), torch.zeros_like(saved[2])
        gradients = (dq_SHD.numpy(), dk_NKD.numpy(), dv_NKD.numpy())
        arrays = ((q, k, v), (queries, keys), positions, out, log_sums, gradients)
        attention_gradients(dout.contiguous().numpy(), *arrays)
        return dq_SHD, dk_NKD, dv_NKD, None, None


def _arrays(*tensors: Tensor) -> list[NDArray[Any]]:
    return [tensor.detach().numpy() for tensor in tensors]


def _rows(x: Tensor) -> NDArray[np.float32]:
    """All dimensions but the last as one."""
    array_NE: NDArray[np.float32] = x.view(-1, x.shape[-1]).numpy()
    return array_NE


def _copied(weight_E: Tensor) -> NDArray[np.float32]:
    """A copy: FSDP frees the memory of a gathered parameter, which an array would hold."""
    array_E: NDArray[np.float32] = weight_E.clone().numpy()
    return array_E


def _rotated(x_NHD: Tensor, cos_ND: Tensor, sin_ND: Tensor) -> Tensor:
    out_NHD = torch.empty(x_NHD.shape)
    given = (x_NHD.contiguous(), cos_ND, sin_ND, out_NHD)
    rotate_heads(*(tensor.numpy() for tensor in given))
    return out_NHD
