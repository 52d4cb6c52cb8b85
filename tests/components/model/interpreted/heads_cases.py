"""`rotate_heads`, computed by Triton's interpreter (`test_triton_kernels.py` starts this file)."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from small_shape import LLAMA

from agentrl_components.model.decoder import Attention
from agentrl_components.model.layer_functions import rotate
from agentrl_components.model.triton_kernels.heads import rotate_heads

EPS = 1e-6


def drawn(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def plain(x, weight, cos, sin):
    """By operations of torch, in float64."""
    x, cos, sin = x.double(), cos.double(), sin.double()
    return rotate(
        x if weight is None else F.rms_norm(x, weight.shape, weight.double(), EPS), cos, sin
    )


def test_a_head_is_divided_by_its_root_mean_square_and_each_pair_is_turned_by_its_angle():
    x = torch.tensor([[[1.0, 7.0, 7.0, 1.0]]])  # of mean square 25
    cos, sin = torch.tensor([[0.0, 0.6]]), torch.tensor([[1.0, 0.8]])
    found = rotate_heads(x, torch.tensor([1.0, 1.0, 1.0, 2.0]), 1e-9, cos, sin)
    # Pairs (0.2, 1.4), turned by a right angle, and (1.4, 0.4).
    wanted = [-1.4, 1.4 * 0.6 - 0.4 * 0.8, 0.2, 0.4 * 0.6 + 1.4 * 0.8]
    assert torch.allclose(found.flatten(), torch.tensor(wanted), rtol=0, atol=1e-6)


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize(("heads", "width"), [(2, 128), (3, 24)])
def test_results_and_gradients_are_those_of_torch(heads, width, normed):
    x = drawn(21, heads, width).requires_grad_()  # 42 or 63 rows: no whole number of programs
    weight = (1 + drawn(width)).requires_grad_() if normed else None
    angles = drawn(21, width // 2)
    given = (angles.cos(), angles.sin())
    found, wanted = rotate_heads(x, weight, EPS, *given), plain(x, weight, *given)
    assert torch.allclose(found.double(), wanted, rtol=0, atol=1e-5)
    inputs = [x] if weight is None else [x, weight]
    along = drawn(21, heads, width)
    ours = torch.autograd.grad(found, inputs, along)
    for one, other in zip(ours, torch.autograd.grad(wanted, inputs, along.double()), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-5)


def test_tokens_may_lie_apart_in_memory():
    packed = drawn(5, 3, 8)
    x = packed[:, 1:]  # two heads of three
    angles = drawn(5, 4)
    found = rotate_heads(x, None, EPS, angles.cos(), angles.sin())
    assert torch.allclose(found, rotate(x, angles.cos(), angles.sin()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("normed", [True, False])
def test_the_attention_of_a_layer_places_queries_and_keys_as_torch_does(normed):
    attention = Attention(replace(LLAMA, normed=normed), 0)
    q, k = drawn(5, 2, 8), drawn(5, 1, 8)
    angles = drawn(5, 4)
    given = (q, k, angles.cos(), angles.sin())
    for one, other in zip(attention.place_fused(*given), attention.place(*given), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-6)


def test_bfloat16_is_computed_in_float32():
    x, weight = drawn(4, 2, 16).bfloat16(), (1 + drawn(16)).bfloat16()
    angles = drawn(4, 8)
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    found = rotate_heads(x, weight, EPS, cos, sin)
    assert found.dtype == torch.bfloat16
    wanted = plain(x, weight, cos, sin)
    # The interpreter cuts bfloat16's eighth bit off; a GPU rounds it.
    assert ((found.double() - wanted).abs() <= wanted.abs() * math.ldexp(1, -7) + 1e-6).all()


@pytest.mark.parametrize("normed", [True, False])
def test_heads_are_kept_for_the_backward_pass_only_if_they_are_normalised(normed):
    x, angles, kept = drawn(5, 2, 8).requires_grad_(), drawn(5, 4), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        rotate_heads(x, torch.ones(8) if normed else None, EPS, angles.cos(), angles.sin())
    assert (x.shape in kept) == normed
