"""Attention within packed episodes, by each of its kernels."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from agentrl_components.model.packed_attention import (
    PackedCausal,
    has_varlen_kernel,
    varlen_attention,
)

CPU = torch.device("cpu")


def plain(q_NHD: torch.Tensor, k_NKD: torch.Tensor, v_NKD: torch.Tensor) -> torch.Tensor:
    """Causal attention of one episode, head by head, from the definition."""
    tokens, heads, width = q_NHD.shape
    group = heads // k_NKD.shape[1]
    out_NHD = torch.empty_like(q_NHD)
    for head in range(heads):
        scores = q_NHD[:, head] @ k_NKD[:, head // group].T / width**0.5
        scores += torch.full((tokens, tokens), -torch.inf).triu(1)
        out_NHD[:, head] = scores.softmax(-1) @ v_NKD[:, head // group]
    return out_NHD


both_kernels = pytest.mark.parametrize(
    "kind", [torch.float32, torch.float64], ids=["ours", "torch"]
)
"""float32 is computed by functions that are compiled for CPUs, and float64 by torch."""


@both_kernels
@pytest.mark.parametrize("lengths", [[3, 5, 1], [4, 4], [7]])
def test_packed_episodes_attend_to_their_own_earlier_tokens(lengths, kind) -> None:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(sum(lengths), heads, 8, generator=draw, dtype=kind) for heads in (4, 2, 2)
    )
    found = PackedCausal(lengths, CPU)(0, q, k, v)
    parts = zip(*(torch.split(x, lengths) for x in (q, k, v)), strict=True)
    torch.testing.assert_close(found, torch.cat([plain(*part) for part in parts]))


@both_kernels
@pytest.mark.parametrize(
    "rows",
    [[9], [2, 5, 6, 7], [0, 1, 2, 3, 8, 9, 10, 11], list(range(12))],
    ids=["one", "few", "no more than half of each", "all"],
)
def test_output_and_gradients_of_tokens_that_are_asked_for_are_those_of_all(rows, kind) -> None:
    draw = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(12, heads, 8, generator=draw, dtype=kind, requires_grad=True)
        for heads in (4, 2, 2)
    ]
    attend, rows_S = PackedCausal([8, 1, 3], CPU), torch.tensor(rows)
    found = attend(0, *inputs, rows_S)
    whole = attend(0, *inputs).index_select(0, rows_S)
    torch.testing.assert_close(found, whole)
    weight = torch.randn(whole.shape, generator=draw, dtype=kind)
    gradients, expected = (
        torch.autograd.grad((out * weight).sum(), inputs) for out in (found, whole)
    )
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_kernel_for_packed_sequences_takes_what_it_is_given() -> None:
    """Shapes and types only: it runs on GPUs, where `benchmarks/gpu.py` compares its results."""
    q, k, v = (
        torch.empty(10, heads, 32, device="meta", dtype=torch.bfloat16, requires_grad=True)
        for heads in (4, 2, 2)
    )
    bounds = torch.empty(4, device="meta", dtype=torch.int32)
    out = varlen_attention(q, k, v, bounds, 5)
    assert (out.shape, out.dtype) == (q.shape, torch.bfloat16)
    gradients = torch.autograd.grad(out.sum(), (q, k, v))
    assert [one.shape for one in gradients] == [q.shape, k.shape, v.shape]


def test_the_kernel_for_packed_sequences_is_for_gpus_and_16_bits() -> None:
    assert not has_varlen_kernel(torch.empty(3, 4, 32, dtype=torch.bfloat16))
    with FakeTensorMode():
        assert not has_varlen_kernel(torch.empty(3, 4, 32, device="cuda"))
        wide = torch.empty(3, 4, 264, device="cuda", dtype=torch.bfloat16)
        assert not has_varlen_kernel(wide)


def test_padding_is_told_as_a_multiple_of_the_operations() -> None:
    device = torch.device("cpu")
    assert PackedCausal([4, 4, 4], device).padding == 1
    assert PackedCausal([2, 4], device).padding == 1.6  # 2 x 4 x 4 instead of 2 x 2 + 4 x 4
