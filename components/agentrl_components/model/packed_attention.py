"""Causal attention within packed episodes, for scoring and training.

Legend: N packed tokens, S those whose output is asked for, B episodes, T tokens of the longest
episode, Q most tokens of an episode that are asked for, H query heads, K key heads, D head width.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from agentrl_components.model.layer_functions import attend_causally, on_kernels
from agentrl_components.transfers import on_device

FLASH_TYPES = (torch.float16, torch.bfloat16)
FLASH_WIDTH = 256
"""Widest head of FlashAttention's kernels; widths are multiples of 8."""
DENSE_CAPABILITY = (9, 0)
"""GPUs from Hopper on, for which cuDNN has attention kernels for sequences of equal length that are
faster than FlashAttention's for different lengths."""
DENSE_SPEED = 1.8
"""How much faster they are: of the same operations, on an H100 (`benchmarks/gpu.py`)."""


class PackedCausal:
    """Implements `causal_model.Attend`: every packed episode attends causally to its own tokens.

    Linear layers see the N packed tokens without padding. So does attention in float32 on CPU
    (`layer_functions.attend_causally`), and where torch has FlashAttention for sequences of
    different lengths (`has_varlen_kernel`), unless the episodes are of so similar length that
    padding them costs less than kernels for equal lengths gain. Elsewhere it pads each episode to
    the longest one of the pack, and where less than half of the tokens are asked for, only these
    are queries."""

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        """`lengths` [B] are the token counts of the episodes, in the order they are packed."""
        self.batch, self.longest = len(lengths), max(lengths)
        lengths_B = np.asarray(lengths, dtype=np.int64)
        ends_B = lengths_B.cumsum()
        positions_N = np.arange(ends_B[-1]) - (ends_B - lengths_B).repeat(lengths_B)
        self._bounds_B1 = on_device(np.append(0, ends_B), device)
        """Index of each episode's first token, and the number of all tokens."""
        self.positions_N = on_device(positions_N, device)
        """Position of each packed token in its episode."""
        self._episode_N = on_device(np.arange(self.batch).repeat(lengths_B), device)
        self._places_N = self._episode_N * self.longest + self.positions_N
        self._unpadded = all(n == self.longest for n in lengths)
        self.padding = padded_operations(lengths)

    def __call__(
        self,
        layer: int,
        q_NHD: Tensor,
        k_NKD: Tensor,
        v_NKD: Tensor,
        rows_S: Tensor | None = None,
    ) -> Tensor:
        if on_kernels(q_NHD):
            return self.compiled(q_NHD, k_NKD, v_NKD, rows_S)
        attend = self.padded
        if has_varlen_kernel(q_NHD):
            if self.padding > dense_speed(q_NHD.device):
                attend = self.unpadded
        elif rows_S is not None and 2 * self._most_rows(rows_S) <= self.longest:
            return self.padded_rows(q_NHD, k_NKD, v_NKD, rows_S)
        out_NHD = attend(q_NHD, k_NKD, v_NKD)
        return out_NHD if rows_S is None else out_NHD.index_select(0, rows_S)

    def compiled(
        self, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor, rows_S: Tensor | None
    ) -> Tensor:
        """Attention output [N, H, D], or [S, H, D] for the tokens with index `rows_S`. Needs
        `on_kernels`."""
        if rows_S is None:
            bounds = (self._bounds_B1, self._bounds_B1)
            return attend_causally(q_NHD, k_NKD, v_NKD, bounds, self.positions_N)
        bounds = (torch.searchsorted(rows_S, self._bounds_B1), self._bounds_B1)
        positions_S = self.positions_N.index_select(0, rows_S)
        return attend_causally(q_NHD.index_select(0, rows_S), k_NKD, v_NKD, bounds, positions_S)

    def unpadded(self, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor) -> Tensor:
        """Attention output [N, H, D]. Needs `has_varlen_kernel`."""
        return varlen_attention(q_NHD, k_NKD, v_NKD, self._short_bounds_B1, self.longest)

    def padded(self, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor) -> Tensor:
        """Attention output [N, H, D] with all episodes as long as the longest one."""
        out_BHTD = F.scaled_dot_product_attention(
            self._padded(q_NHD),
            self._padded(k_NKD),
            self._padded(v_NKD),
            is_causal=True,
            enable_gqa=q_NHD.shape[1] != k_NKD.shape[1],
        )
        out_NHD = out_BHTD.transpose(1, 2).reshape(-1, q_NHD.shape[1], q_NHD.shape[2])
        return out_NHD if self._unpadded else out_NHD.index_select(0, self._places_N)

    def padded_rows(self, q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor, rows_S: Tensor) -> Tensor:
        """Attention output [S, H, D] for the tokens with index `rows_S`. Needs a mask, so that no
        kernel skips the keys after a token, but fewer queries than `padded`."""
        most = self._most_rows(rows_S)
        episode_S = self._episode_N.index_select(0, rows_S)
        position_S = self.positions_N.index_select(0, rows_S)
        first_B = torch.searchsorted(episode_S, torch.arange(self.batch, device=rows_S.device))
        number_S = torch.arange(len(rows_S), device=rows_S.device) - first_B[episode_S]
        slots_S = episode_S * most + number_S
        # Padding attends to the first key, and is dropped.
        position_BQ = position_S.new_zeros(self.batch * most).index_copy(0, slots_S, position_S)
        keys_T = torch.arange(self.longest, device=rows_S.device)
        mask_B1QT = keys_T <= position_BQ.view(self.batch, 1, most, 1)
        heads, width = q_NHD.shape[1:]
        q_BQHD = q_NHD.new_zeros(self.batch * most, heads, width).index_copy(
            0, slots_S, q_NHD.index_select(0, rows_S)
        )
        out_BHQD = F.scaled_dot_product_attention(
            q_BQHD.view(self.batch, most, heads, width).transpose(1, 2),
            self._padded(k_NKD),
            self._padded(v_NKD),
            attn_mask=mask_B1QT,
            enable_gqa=heads != k_NKD.shape[1],
        )
        return out_BHQD.transpose(1, 2).reshape(-1, heads, width).index_select(0, slots_S)

    def _most_rows(self, rows_S: Tensor) -> int:
        """The largest number of tokens with index `rows_S` that an episode has."""
        return int(self._episode_N.index_select(0, rows_S).bincount().max())

    @functools.cached_property
    def _short_bounds_B1(self) -> Tensor:
        """`_bounds_B1` as `varlen_attention` takes them."""
        return self._bounds_B1.int()

    def pad_tokens(self, ids_N: Tensor) -> Tensor:
        """The episodes as rows [B, T], with token 0 after each."""
        if not self._unpadded:
            padded = ids_N.new_zeros(self.batch * self.longest)
            ids_N = padded.index_copy(0, self._places_N, ids_N)
        return ids_N.view(self.batch, self.longest)

    def unpad(self, x_BTE: Tensor) -> Tensor:
        """The packed tokens [N, E] of padded rows."""
        x_NE = x_BTE.flatten(0, 1)
        return x_NE if self._unpadded else x_NE.index_select(0, self._places_N)

    def _padded(self, x_NHD: Tensor) -> Tensor:
        """[B, H, T, D] with zeros after each episode."""
        if not self._unpadded:
            padded = x_NHD.new_zeros(self.batch * self.longest, *x_NHD.shape[1:])
            x_NHD = padded.index_copy(0, self._places_N, x_NHD)
        return x_NHD.view(self.batch, self.longest, *x_NHD.shape[1:]).transpose(1, 2)


def padded_operations(lengths: Sequence[int]) -> float:
    """How many times the operations of attention padding takes; 1 if the lengths are equal."""
    return len(lengths) * max(lengths) ** 2 / sum(n * n for n in lengths)


def padded_tokens(lengths: Sequence[int], device: torch.device) -> int:
    """Tokens that `PackedCausal` attends over, including padding, for episodes of `lengths` [B]
    tokens: in 16 bits on a GPU, or in float32 on a CPU, where it does not pad."""
    has_varlen = device.type == "cpu" or _has_flash_attention(device)
    if has_varlen and padded_operations(lengths) > dense_speed(device):
        return sum(lengths)
    return len(lengths) * max(lengths)


def varlen_attention(
    q_NHD: Tensor, k_NKD: Tensor, v_NKD: Tensor, bounds_B1: Tensor, longest: int
) -> Tensor:
    """Causal attention [N, H, D] within packed episodes, by FlashAttention (arXiv 2307.08691).

    Args:
        bounds_B1: index of each episode's first token, and the number of all tokens. int32.
        longest: tokens of the longest episode.
    """
    from torch.nn.attention.varlen import varlen_attn  # registers operators: not where CPUs train

    out_NHD = varlen_attn(
        q_NHD.contiguous(),
        k_NKD.contiguous(),
        v_NKD.contiguous(),
        bounds_B1,
        bounds_B1,
        longest,
        longest,
        window_size=(-1, 0),  # causal
        enable_gqa=q_NHD.shape[1] != k_NKD.shape[1],
    )
    assert isinstance(out_NHD, Tensor)  # a tuple if more was asked for
    return out_NHD


def has_varlen_kernel(q_NHD: Tensor) -> bool:
    """Whether torch computes attention over packed sequences of different lengths for these
    queries: on GPUs from compute capability 8.0 (Ampere) on, in 16 bits."""
    width = q_NHD.shape[-1]
    return (
        q_NHD.is_cuda
        and q_NHD.dtype in FLASH_TYPES
        and width <= FLASH_WIDTH
        and width % 8 == 0
        and _has_flash_attention(q_NHD.device)
    )


@functools.cache
def dense_speed(device: torch.device) -> float:
    """Speed of the device's attention over sequences of equal length, as a multiple of that over
    sequences of different lengths. 0: it is not used."""
    if device.type == "cpu":
        return 0.0
    return DENSE_SPEED if torch.cuda.get_device_capability(device) >= DENSE_CAPABILITY else 0.0


@functools.cache
def _has_flash_attention(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)
