"""`score_tokens`, computed by Triton's interpreter (`test_triton_kernels.py` starts this file)."""

import math

import pytest
import torch

from agentrl_components.model.triton_kernels.scores import COLUMNS, score_tokens
from agentrl_components.update.logprobs import free_scores

VOCABULARY = 2 * COLUMNS + 100


def drawn(*sizes):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def test_log_probability_and_entropy_of_three_logits_at_a_temperature():
    logits = torch.tensor([[0.0, 2 * math.log(2), 2 * math.log(5)]])
    found = score_tokens(logits, torch.tensor([1]), torch.tensor([2.0]), False)
    shares = [1 / 8, 2 / 8, 5 / 8]  # at temperature 2 the odds are 1 : 2 : 5
    assert found[0].item() == pytest.approx(math.log(2 / 8), abs=1e-6)
    assert found[1].item() == pytest.approx(-sum(p * math.log(p) for p in shares), abs=1e-6)


@pytest.mark.parametrize("entropy_gradient", [True, False])
def test_results_and_gradients_are_those_of_torch(entropy_gradient):
    logits = (5 * drawn(7, VOCABULARY)).requires_grad_()
    targets = torch.tensor([0, 1, COLUMNS - 1, COLUMNS, 2 * COLUMNS, VOCABULARY - 1, 5])
    temperature = torch.linspace(0.5, 1.5, 7)
    found = score_tokens(logits, targets, temperature, entropy_gradient)
    wanted = free_scores(logits.double(), targets, temperature.double(), entropy_gradient)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.double(), other, rtol=0, atol=1e-5)
    assert found[1].requires_grad == entropy_gradient
    along = drawn(2, 7)

    def gradient(results):
        total = (results[0] * along[0].to(results[0])).sum()
        if entropy_gradient:
            total = total + (results[1] * along[1].to(results[1])).sum()
        return torch.autograd.grad(total, logits)[0]

    assert torch.allclose(gradient(found), gradient(wanted), rtol=0, atol=1e-5)


def test_large_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 9999.0]])
    logprob, entropy = score_tokens(logits, torch.tensor([2]), torch.ones(1), False)
    both = 1 + math.exp(-1)
    assert logprob.item() == pytest.approx(-1 - math.log(both), abs=1e-5)
    assert entropy.item() == pytest.approx(math.log(both) + math.exp(-1) / both, abs=1e-5)


def test_no_tokens_have_no_scores():
    logits = torch.empty(0, 10, requires_grad=True)
    logprob, _ = score_tokens(logits, torch.empty(0, dtype=torch.long), torch.empty(0), True)
    assert torch.autograd.grad(logprob.sum(), logits)[0].shape == (0, 10)
