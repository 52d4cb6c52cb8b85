"""What a decoder layer computes beside matrix products.

On CPU, in float32, functions that are compiled for this processor (`kernels/`), each of which reads
and writes an array once; elsewhere, and inside of torch.compile, operations of torch.

Legend: N tokens, S those with a query, B episodes, E width of what is normalised, F feed-forward
width, H query heads, K key heads, D head width.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight_E: Tensor, eps: float) -> Tensor:
    """Root mean square normalisation of the last dimension, times a weight (arXiv 1910.07467)."""
    if on_kernels(x):
        out: Tensor = _kernels().Normalise.apply(x, weight_E, eps)
        return out
    if torch.compiler.is_compiling():
        # Written out, so that `selectively` can keep the scale, which is one number for each row.
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        return (wide * scale * weight_E).to(x.dtype)
    return F.rms_norm(x, weight_E.shape, weight_E, eps)


def gated(gate_NF: Tensor, up_NF: Tensor) -> Tensor:
    """silu(gate) up [N, F], as in SwiGLU (arXiv 2002.05202)."""
    if not on_kernels(gate_NF):
        return F.silu(gate_NF) * up_NF
    out_NF: Tensor = _kernels().Gate.apply(gate_NF, up_NF)
    return out_NF


def rotate(x_NHD: Tensor, cos_ND: Tensor, sin_ND: Tensor) -> Tensor:
    """`x_NHD` with rotary position embedding (arXiv 2104.09864), in Llama's half-split layout."""
    if on_kernels(x_NHD):
        out_NHD: Tensor = _kernels().Rotate.apply(x_NHD, cos_ND, sin_ND)
        return out_NHD
    half = x_NHD.shape[-1] // 2
    a, b = x_NHD[..., :half], x_NHD[..., half:]
    cos, sin = cos_ND[:, None], sin_ND[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def attend_causally(
    q_SHD: Tensor,
    k_NKD: Tensor,
    v_NKD: Tensor,
    bounds: tuple[Tensor, Tensor],
    positions_S: Tensor,
) -> Tensor:
    """Causal attention [S, H, D] within packed episodes. Needs `on_kernels`.

    Args:
        bounds: index of each episode's first query, and the number of all, [B + 1]; and the same
            for keys.
        positions_S: position of each query in its episode, in the order of the episode.
    """
    given = (q_SHD, k_NKD, v_NKD, bounds, positions_S)
    out_SHD: Tensor = _kernels().AttendCausally.apply(*given)
    return out_SHD


def on_kernels(x: Tensor) -> bool:
    """Whether compiled functions compute `x`."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling()


@functools.cache
def _kernels() -> ModuleType:
    """Numba takes time to import, and only float32 on CPU needs it."""
    from agentrl_components.model.kernels import differentiable

    return differentiable
