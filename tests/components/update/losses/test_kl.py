from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.update.losses.kl import kl_penalty


def test_the_three_estimators():
    # policy .5, reference .25: d = log 2 = .6931472
    # k1 = .6931472; k2 = .6931472^2 / 2 = .2402265; k3 = .5 - 1 + .6931472 = .1931472
    logprobs, reference = torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])
    for estimator, value in (("k1", 0.6931472), ("k2", 0.2402265), ("k3", 0.1931472)):
        assert kl_penalty(logprobs, reference, estimator).item() == pytest.approx(value, rel=1e-5)


def test_one_token_with_a_large_distance_has_a_bounded_penalty():
    # d = -30: k3 = e^30 - 1 - 30 is about 1e13; k1 = -30; both are held at 10
    logprobs = torch.tensor([-30.0], requires_grad=True)
    for estimator, value in (("k1", -10.0), ("k2", 10.0), ("k3", 10.0)):
        penalty = kl_penalty(logprobs, torch.zeros(1), estimator)
        assert penalty.item() == value
        (pull,) = torch.autograd.grad(penalty.sum(), logprobs)
        assert pull.item() == -10.0  # still pulled back up, with a bounded force


def test_infinite_distances_stay_finite_in_value_and_gradient():
    logprobs = torch.tensor([-1e6], requires_grad=True)
    penalty = kl_penalty(logprobs, torch.zeros(1), "k3")
    penalty.sum().backward()
    assert penalty.item() == 10.0
    assert logprobs.grad.item() == -10.0


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@given(policy=st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_the_expected_gradient_is_that_of_the_divergence_whichever_estimator(estimator, policy):
    reference = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log()
    logits = torch.tensor(policy, dtype=torch.float64, requires_grad=True)

    # Exact: the gradient of sum p (log p - log q).
    logp = logits.log_softmax(0)
    (exact,) = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits)

    # What sampling from the policy gives on average: every token, weighted by its probability.
    logp = logits.log_softmax(0)
    mean = (logp.detach().exp() * kl_penalty(logp, reference, estimator)).sum()
    (got,) = torch.autograd.grad(mean, logits)
    torch.testing.assert_close(got, exact, atol=1e-9, rtol=1e-7)


@given(policy=st.lists(st.floats(-1, 1), min_size=3, max_size=3))
def test_k1_and_k3_are_unbiased_within_their_bounds(policy):
    # Logits within 1 of 0: probabilities of at least .063, so e^-d is at most .5 / .063 < 10.
    reference = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log()
    logp = torch.tensor(policy, dtype=torch.float64).log_softmax(0)
    exact = (logp.exp() * (logp - reference)).sum()
    for estimator in ("k1", "k3"):
        mean = (logp.exp() * kl_penalty(logp, reference, estimator)).sum()
        torch.testing.assert_close(mean, exact, atol=1e-9, rtol=1e-7)
