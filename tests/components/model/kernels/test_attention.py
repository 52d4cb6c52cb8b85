"""Causal attention within packed episodes, and its gradients."""

import math

import numpy as np
import pytest
import torch

from agentrl_components.model.kernels.attention import TILE, attend_causally
from agentrl_components.model.layer_functions import attend_causally as differentiable

LENGTHS = [TILE + 9, 1, 2 * TILE, 5]
ROWS = [0, 3, TILE, TILE + 8, TILE + 10, TILE + 12, 3 * TILE + 9]
"""Tokens with a query: none of the second episode."""


def heads(*values):
    return np.array(values, dtype=np.float32)[:, None, None]


def attended(q, k, v, lengths):
    """Outputs, and the logarithms of sums of exponentials."""
    bounds = np.cumsum([0, *lengths])
    out, log_sums = np.empty_like(q), np.empty(q.shape[:2], np.float32)
    positions = np.concatenate([np.arange(n) for n in lengths])
    attend_causally(q, k, v, (bounds, bounds), positions, out, log_sums)
    return out, log_sums


def test_a_token_attends_to_itself_and_to_earlier_tokens_of_its_episode():
    """Keys 0 and log(3) have weights 1/4 and 3/4 for a query of 1."""
    q, k, v = heads(1, 1, 1), heads(0, math.log(3), 5), heads(8, 4, 7)
    out, log_sums = attended(q, k, v, [2, 1])
    assert out.ravel() == pytest.approx([8, 5, 7])
    assert log_sums.ravel() == pytest.approx([0, math.log(4), 5])


def test_an_episode_has_the_same_bits_alone_and_in_a_pack():
    draw = np.random.default_rng(0)
    q, k, v = (draw.standard_normal((sum(LENGTHS), n, 20), dtype=np.float32) for n in (4, 2, 2))
    together, _ = attended(q, k, v, LENGTHS)
    first = 0
    for length in LENGTHS:
        part = slice(first, first + length)
        alone, _ = attended(q[part], k[part], v[part], [length])
        assert (alone == together[part]).all()
        first += length


@pytest.mark.parametrize("rows", [None, ROWS], ids=["all", "some"])
@pytest.mark.parametrize("width", [3, 16, 40])
def test_outputs_and_gradients_are_those_of_the_definition(width, rows):
    """Beside torch's operations in float64, masked: no outcome is right by chance."""
    draw = torch.Generator().manual_seed(width)
    tokens = sum(LENGTHS)
    asked = torch.arange(tokens) if rows is None else torch.tensor(rows)
    inputs = [torch.randn(tokens, n, width, generator=draw, requires_grad=True) for n in (4, 2, 2)]
    episode = torch.arange(len(LENGTHS)).repeat_interleave(torch.tensor(LENGTHS))
    bounds = torch.tensor([0, *np.cumsum(LENGTHS)])
    positions = torch.arange(tokens) - bounds[episode]
    given = (torch.searchsorted(asked, bounds), bounds)
    found = differentiable(inputs[0][asked], *inputs[1:], given, positions[asked])

    exact = [x.detach().double().requires_grad_() for x in inputs]
    q, k, v = exact[0], *(x.repeat_interleave(2, 1) for x in exact[1:])
    scores = torch.einsum("shd,nhd->hsn", q[asked], k) / math.sqrt(width)
    seen = (episode[asked, None] == episode) & (asked[:, None] >= torch.arange(tokens))
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    expected = torch.einsum("hsn,nhd->shd", weights, v)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)

    dout = torch.randn(found.shape, generator=draw)
    gradients = torch.autograd.grad(found, inputs, dout)
    wanted = torch.autograd.grad(expected, exact, dout.double())
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=2e-5)


def test_an_undefined_query_has_an_undefined_output_and_leaves_others_alone():
    q, k, v = heads(1, math.nan), heads(0, 0), heads(8, 4)
    out, _ = attended(q, k, v, [1, 1])
    assert out[0, 0, 0] == 8
    assert math.isnan(out[1, 0, 0])
