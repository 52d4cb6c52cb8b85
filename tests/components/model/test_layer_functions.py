"""Compiled functions compute what operations of torch compute, and so do their gradients."""

from functools import partial

import pytest
import torch

from agentrl_components.model.layer_functions import gated, on_kernels, rms_norm, rotate

N, H, D, F = 5, 3, 20, 37  # widths that fill no register of the processor


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[-1]))


CALLS = {
    "norm": (partial(rms_norm, eps=1e-5), (drawn(N, F), drawn(F))),
    "norm of heads": (partial(rms_norm, eps=1e-5), (drawn(N, H, D), drawn(D))),
    "gate": (gated, (drawn(N, F), 3 * drawn(N, F))),
    "rotation": (
        lambda x: rotate(x, drawn(N, D // 2).cos(), drawn(N, D // 2).sin()),
        (drawn(N, H, D),),
    ),
}


def computed(call, given, dtype):
    """The result of a call, and the gradients of its inputs where each number of it weighs
    differently."""
    inputs = [tensor.to(dtype).requires_grad_() for tensor in given]
    out = call(*inputs)
    weights = torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), inputs)]


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_those_of_torch_in_double_precision(name):
    call, given = CALLS[name]
    exact = computed(call, given, torch.float64)
    for found, expected in zip(computed(call, given, torch.float32), exact, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_rows_in_other_orders_of_memory_give_the_same_bits(name):
    call, given = CALLS[name]
    strided = [tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for tensor in given]
    for found, expected in zip(
        computed(call, strided, torch.float32), computed(call, given, torch.float32), strict=True
    ):
        assert torch.equal(found, expected)


def test_an_input_that_is_not_trained_has_no_gradient():
    x = drawn(N, F).requires_grad_()
    rms_norm(x, torch.ones(F), 1e-5).sum().backward()
    frozen = drawn(N, F)
    assert x.grad is not None
    assert not rms_norm(frozen, torch.ones(F), 1e-5).requires_grad


def test_only_float32_on_cpu_is_computed_by_compiled_functions():
    assert on_kernels(torch.ones(1))
    assert not on_kernels(torch.ones(1, dtype=torch.bfloat16))
    assert not on_kernels(torch.ones(1, device="meta"))
